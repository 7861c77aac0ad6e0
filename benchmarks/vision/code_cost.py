"""Cost of the code: the alignment of a wide network, and codes of images, by today's default and by the one before.

    python -m benchmarks.vision.code_cost [--components 2048] [--json FILE]

The default before aligned both outputs and kept the better one; today's is one staged code of both. Outputs are random
with some shared factors. Seconds are those of the processor, so that other work on the machine matters little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.common import harness
from eigenmap.fitting.align import Evidence, align_outputs
from eigenmap.model import CodeSource, Eigenmap, EncoderSpec, ImageInput
from eigenmap.networks import Network, build_encoder
from eigenmap.spectrum import Alignment, Moments

PAIRS, KEPT, FACTORS = 6_000, 2_000, 64
PROTOCOL = (
    "processor seconds, one thread: alignment of ResNet-18's 512 outputs and k of the projector from moments, with "
    f"{KEPT:,} held-out pairs; codes of images of 32 pixels, median of several batches in turn"
)


def evidence(width: int, components: int, pairs: int = PAIRS, kept: int = KEPT) -> Evidence:
    """Moments of random outputs of encoder and projector, whose two views share some factors."""
    generator = torch.Generator().manual_seed(0)
    mixing = torch.randn(FACTORS, width + components, generator=generator)

    def views(count: int) -> tuple[Tensor, Tensor]:
        shared = torch.randn(count, FACTORS, generator=generator) @ mixing
        noise = [torch.randn(count, width + components, generator=generator) for _ in range(2)]
        return shared + 3 * noise[0], shared + 3 * noise[1]

    fit, held_out = Moments(width + components).update(*views(pairs)), Moments(width + components)
    codes = views(kept)
    held_out.update(*codes)
    mean: dict[CodeSource, Tensor] = {"both": fit.mean()}
    return Evidence({"both": fit}, {"both": held_out}, {"both": codes}, mean, staged="both", width=width)


def processor_seconds(work: Callable[[], object]) -> float:
    """Seconds of the processor that a piece of work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def coded(network: Network, source: CodeSource, alignment: Alignment) -> Eigenmap:
    """A model of 32-pixel images with this code."""
    return Eigenmap(network, alignment, source, ImageInput(32, 3), EncoderSpec("resnet18"))


def measure(components: int, images: int = 64, repeat: int = 5) -> dict[str, Any]:
    """Seconds of both alignments, and of codes per image with both."""
    encoder = build_encoder("resnet18")
    network = Network(encoder, components)
    found = evidence(network.projector.in_features, components)
    aligned: dict[CodeSource, Alignment] = {}
    align: dict[str, float] = {}
    for name, sources in {"before": ("encoder", "projector"), "default": ("both",)}.items():
        align[name] = processor_seconds(lambda: aligned.update(align_outputs(found, sources, components)))  # noqa: B023
        print(f"alignment, {name}: {align[name]:.1f} s", flush=True)
    pixels = np.random.default_rng(0).integers(0, 256, (images, 32, 32, 3), dtype=np.uint8)
    models = {
        "before": coded(network, "projector", aligned["projector"]),
        "default": coded(network, "both", aligned["both"]),
    }
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(repeat):
        for name, model in models.items():
            times[name].append(processor_seconds(lambda: model.encode(pixels)) / images)  # noqa: B023
    codes = {name: median(values[1:]) for name, values in times.items()}
    print("code per image:", {name: f"{1000 * value:.2f} ms" for name, value in codes.items()}, flush=True)
    return {"alignment_seconds": align, "code_seconds": codes} | {
        "ratios": {"alignment": align["default"] / align["before"], "code": codes["default"] / codes["before"]}
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--components", type=int, default=2048)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    about = {"benchmark": "code-cost", "protocol": PROTOCOL, "components": given.components}
    result = {**about, **measure(given.components), **harness.environment()}
    print({name: round(value, 2) for name, value in result["ratios"].items()})
    if given.json is not None:
        harness.write(given.json, result)


if __name__ == "__main__":
    main()
