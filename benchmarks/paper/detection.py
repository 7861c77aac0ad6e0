"""Table 5 at small scale: one initialisation, pre-trained on Tiny-ImageNet, then Mask R-CNN on a generated set.

    python -m benchmarks.paper.detection --data FOLDER --results FOLDER --method random --seed 0

FOLDER contains tiny.npz. The detection set is generated from its images, training pictures from training images and
test pictures from test images, the same for every method. Detections are stored beside the result, compressed;
`coco_ap` scores them with COCO's own tools. `--scale tiny` tries the command in seconds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.paper import RESULTS
from benchmarks.vision import sets as vision_sets
from eigenmap import recipes
from eigenmap.data import ImageSet, Labels
from eigenmap.recipes import Recipe
from eigenmap.reproduce import load_sets
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.runs import Runs
from eigenmap.reproduce.sets import Sets
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS, table_5, transfer_recipe

NAME = "table-5-tiny-{method}-s{seed}"
PROTOCOL = (
    "pre-training on images of Tiny-ImageNet, 20 epochs; Mask R-CNN C4 fine-tuned on pictures made of the training "
    "images of its first 20 classes, scored on pictures made of their test images; AP by our own code, final step"
)


def load_tiny(data: Path) -> Sets:
    """Read tiny.npz as labelled images."""

    def images(split: vision_sets.Split) -> ImageSet:
        names = [str(row) for row in range(len(split))]
        return ImageSet(split.images, names, Labels.from_integers(split.labels))

    train, test = (images(split) for split in vision_sets.load(data, "tiny"))
    return Sets(train, test)


def recipe_for(method: str, scale: Scale) -> Recipe:
    """Return the settings of pre-training, with the stem and size of Tiny-ImageNet."""
    recipe = transfer_recipe("scl" if method in ("random", "supervised") else method, scale)
    like = recipes.get("tiny-resnet18")
    return recipe if scale == "tiny" else recipe.but(image_size=like.image_size, stem=like.stem)


def run(data: Path, method: str, seed: int, found: Path, scale: Scale = "small") -> dict[str, Any]:
    """Pre-train, fine-tune and score; write the detections to `found`."""
    sets = load_sets("tiny", None) if scale == "tiny" else load_tiny(data)
    recipe = recipe_for(method, scale)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (row,) = table_5(scale, Runs(sets, seed), place, [method], place / "found", recipe=recipe)
        (detected,) = (place / "found").glob("*.json")
        truth = json.loads((place / "annotations" / "instances_val.json").read_text())
        found.parent.mkdir(parents=True, exist_ok=True)
        content = {"truth": truth, "detections": json.loads(detected.read_text())}
        with gzip.GzipFile(found, "wb", mtime=0) as file:
            file.write(json.dumps(content).encode())
    return {
        "benchmark": "table-5",
        "protocol": PROTOCOL,
        "job": {"method": method, "seed": seed},
        "scale": scale,
        "recipe": None if method == "random" else asdict(recipe),
        "pretraining": {"images": len(sets.train), "classes": int(sets.classes()[0].max()) + 1},
        "transfer": asdict(TRANSFERS[scale]),
        **harness.environment(),
        **row,
    }


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with tiny.npz")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--method", choices=TITLES, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", choices=("small", "tiny"), default="small")
    given = parser.parse_args(words)
    name = NAME.format(method=given.method, seed=given.seed)
    found = given.results / "detections" / f"{name}.json.gz"
    result = run(given.data, given.method, given.seed, found, given.scale)
    harness.write(given.results / f"{name}.json", result)
    print(name, result["box"], result["mask"])


if __name__ == "__main__":
    main()
