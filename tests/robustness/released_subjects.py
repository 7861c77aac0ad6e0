"""Subjects of the paper's data sets as they are released."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from eigenmap.data.graphs.ogb_folder import read_ogb_folder
from eigenmap.data.images.released import Released, read_coco, read_mirflickr, read_nus_wide, read_voc
from tests.data.images.released.miniatures import write_coco, write_mirflickr, write_nus_wide, write_ogb, write_voc
from tests.robustness.damage import Damage, in_json

Damages = Callable[[bytes], Iterator[Damage]]
NUS_LABELS, VOC = "Groundtruth/TrainTestLabels", "VOCdevkit/VOC2012"
MIR = "mirflickr25k_annotations_v080"


def _seen(found: Released) -> Any:
    return [[str(part.files), part.labels.rows(), part.labels.names] for part in (found.gallery, found.queries)]


def _read_nus_wide(folder: Path) -> Any:
    return _seen(read_nus_wide(folder))


def _read_ogb(folder: Path) -> Any:
    graph = read_ogb_folder(folder)
    assert graph.y is not None
    splits = {name: rows.tolist() for name, rows in graph.splits.items()}
    return graph.edge_index.tolist(), graph.y.tolist(), splits


def _in_table(content: bytes) -> Iterator[Damage]:
    """Tables that are whole gzip files, with wrong content."""
    for text in ("", "0", "0,1,2\n", "-1,0\n", "5,0\n", "1e99,0\n", "nan,0\n", "a,b\n", "0,1\n0\n"):
        yield Damage(f"a table {text!r}", gzip.compress(text.encode()))


def _no_damage(content: bytes) -> Iterator[Damage]:
    return iter(())


KINDS: tuple[tuple[str, str, Callable[[Path], object], Callable[[Path], Any], Damages], ...] = (
    ("coco json", "annotations/instances_train2017.json", write_coco, lambda f: _seen(read_coco(f)), in_json),
    ("nus-wide list", "ImageList/TrainImagelist.txt", write_nus_wide, _read_nus_wide, _no_damage),
    ("nus-wide labels", f"{NUS_LABELS}/Labels_sky_Train.txt", write_nus_wide, _read_nus_wide, _no_damage),
    ("voc xml", f"{VOC}/Annotations/2008_train000001.xml", write_voc, lambda f: _seen(read_voc(f)), _no_damage),
    ("mirflickr annotation", f"{MIR}/sky.txt", write_mirflickr, lambda f: _seen(read_mirflickr(f, 2)), _no_damage),
    ("ogb edges", "raw/edge.csv.gz", write_ogb, _read_ogb, _in_table),
)
"""Name, file, how it is written and read, and how it is damaged."""
