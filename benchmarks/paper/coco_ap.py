"""Average precision of stored detections by COCO's own tools, compared with ours; needs pycocotools, but no GPU.

    pip install pycocotools
    python -m benchmarks.paper.coco_ap --results FOLDER

Adds `pycocotools` to each result of table 5, and fails if the two computations differ by more than 0.001.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import harness
from benchmarks.paper import RESULTS
from eigenmap.detection.average_precision import Kind, average_precision

CLOSE = 1e-3


def by_cocos_tools(truth: Mapping[str, Any], found: Sequence[Mapping[str, Any]], kind: Kind) -> dict[str, float]:
    """Score detections by pycocotools."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    with contextlib.redirect_stdout(io.StringIO()):
        objects = COCO()
        objects.dataset = {**truth, "info": {}}
        objects.createIndex()
        results = objects.loadRes(list(map(dict, found)))
        scored = COCOeval(objects, results, kind)
        scored.evaluate()
        scored.accumulate()
        scored.summarize()
    return {"AP": float(scored.stats[0]), "AP50": float(scored.stats[1]), "AP75": float(scored.stats[2])}


def compare(truth: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Score boxes and masks both ways; raise if they differ."""
    both = {}
    for name, kind in (("box", "bbox"), ("mask", "segm")):
        theirs, ours = by_cocos_tools(truth, found, kind), average_precision(truth, found, kind)  # type: ignore[arg-type]
        far = {key: (theirs[key], ours[key]) for key in theirs if abs(theirs[key] - ours[key]) > CLOSE}  # type: ignore[literal-required]
        if far:
            raise SystemExit(f"{kind}: pycocotools and we differ: {far}")
        both[name] = theirs
    return both


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    for path in sorted((given.results / "detections").glob("*.json.gz")):
        content = json.loads(gzip.decompress(path.read_bytes()))
        file = given.results / path.name.removesuffix(".gz")
        result = json.loads(file.read_text(encoding="utf-8"))
        result["pycocotools"] = compare(content["truth"], content["detections"])
        harness.write(file, result)
        print(file.stem, result["pycocotools"])


if __name__ == "__main__":
    main()
