"""Memory and speed of `eigenmap embed` as the number of images grows.

    python -m benchmarks.scale.embedding --out benchmarks/scale/results/embedding.json

Small JPEG files are written to a temporary folder, and the first 2,000 and then all 10,000 are embedded, each time in a
separate process whose peak resident memory is read (Linux). The same is done with `load_images` and `encode`, which
keep all pixels in memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.common.harness import environment, stored_rows, write
from eigenmap import fit_images

STREAMED = """
import json, sys, time
from eigenmap.embedding import embed_images
run, source, out = sys.argv[1:]
began = time.perf_counter()
made = embed_images(run, source, out, shard_size=1024)
"""
RESIDENT = """
import json, sys, time
from eigenmap import Eigenmap
from eigenmap.data import load_images
run, source, out = sys.argv[1:]
began = time.perf_counter()
model = Eigenmap.load(run)
model.encode(load_images(source, model.image.size, model.image.channels))
"""
WAYS = {"streamed": STREAMED, "all in memory": RESIDENT}
REPORT = """
seconds = time.perf_counter() - began
# Not ru_maxrss, which a process inherits from the one that started it.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"seconds": seconds, "peak_mb": int(status["VmHWM"].split()[0]) / 1024}))
"""


def make_photos(folder: Path, count: int, side: int) -> None:
    """Write JPEG files of smooth noise, in folders of 1,000."""
    rng = np.random.default_rng(0)
    for number in range(count):
        coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        place = folder / f"{number // 1000:03d}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(place / f"{number:06d}.jpg")


def measured(script: str, run: Path, source: Path, out: Path) -> dict[str, float]:
    """Run a script in a separate process and return its report."""
    done = subprocess.run(
        [sys.executable, "-c", script + REPORT, str(run), str(source), str(out)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[2000, 10_000])
    parser.add_argument("--side", type=int, default=160, help="side of the files in pixels")
    parser.add_argument("--image-size", type=int, default=64, help="side of the model's input in pixels")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    protocol = {
        "files": f"JPEG, {given.side} pixels a side",
        "model": f"small CNN, {given.image_size} pixels, 64 features",
        "shard_size": 1024,
        "batch_size": 256,
        "memory": "peak resident memory of the process, with Python and torch",
    }
    rows = stored_rows(given.out, protocol)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        pictures = np.random.default_rng(0).integers(0, 256, (128, given.image_size, given.image_size, 3), np.uint8)
        fit_images(pictures, 64, steps=2, batch_size=32, codes="projector", out=run, device="cpu", progress=False)
        for count in given.counts:
            source = folder / str(count)
            make_photos(source, count, given.side)
            for how, script in WAYS.items():
                if any((row["how"], row["images"]) == (how, count) for row in rows):
                    continue
                result = measured(script, run, source, folder / f"codes-{count}")
                row = {
                    "how": how,
                    "images": count,
                    "peak_mb": round(result["peak_mb"], 1),
                    "images_per_second": round(count / result["seconds"], 1),
                }
                print(row, file=sys.stderr, flush=True)
                rows.append(row)
                made = {"benchmark": "embedding", "environment": environment(), "protocol": protocol, "rows": rows}
                write(given.out, made)


if __name__ == "__main__":
    main()
