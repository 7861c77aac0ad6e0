"""Each mistake that is promised to be answered by one sentence and exit code 2, with nothing half-written.

The tests of each verb in `tests/cli` have many more; these run as a user runs them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

import eigenmap as em
from tests.cli.run import Result, assert_refused
from tests.end_to_end.photos import pictures
from tests.end_to_end.process import finish, start


class Mistake(NamedTuple):
    """A command, words of the answer to it, and what to do in its folder before."""

    command: str
    answer: str
    prepare: Callable[[Path], object] = lambda folder: None


def another_version(folder: Path) -> None:
    about = json.loads((folder / "model" / "model.json").read_text())
    (folder / "model" / "model.json").write_text(json.dumps(about | {"version": 99}))


def truncated_weights(folder: Path) -> None:
    weights = folder / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])


class Flat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(12 * 12 * 3, 4)

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.linear(x.flatten(1))
        return features


def own_encoder(folder: Path) -> None:
    torch.manual_seed(0)
    em.fit_images(pictures(20, 12), 3, encoder=Flat(), steps=1, out=folder / "own", device="cpu", progress=False)


def empty_folder(folder: Path) -> None:
    (folder / "empty").mkdir()


def folder_without_images(folder: Path) -> None:
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("no image")


def labels_of_a_missing_image(folder: Path) -> None:
    (folder / "labels.csv").write_text("file,labels\ngone.jpg,cat\n")


def file_in_the_way(folder: Path) -> None:
    (folder / "file").write_text("mine")


FIT, EMBED = "fit images PHOTOS --out out", "embed model PHOTOS --out codes.npy"
MISTAKES = {
    "missing folder": Mistake("fit images nowhere --out out", "nowhere .*exist"),
    "empty folder": Mistake("fit images empty --out out", "empty .*empty", empty_folder),
    "folder without images": Mistake("fit images texts --out out", r"texts .*\(1 \.txt\)", folder_without_images),
    "batch larger than the data set": Mistake(f"{FIT} --batch-size 500 -q", "batch.*500.*52"),
    "more components than samples": Mistake(f"{FIT} -k 53 -q", "53 components.*52"),
    "dim out of range": Mistake(f"{EMBED} --dim 17", "dim .*1 to 16.*17"),
    "another format version": Mistake(EMBED, "version 99.*version 1", another_version),
    "truncated weights": Mistake(EMBED, r"model\.safetensors .*damaged", truncated_weights),
    "encoder of one's own": Mistake(
        "embed own PHOTOS --out codes.npy", r"Eigenmap\.load\(directory, encoder=", own_encoder
    ),
    "labels of missing images": Mistake(
        "evaluate retrieval model --gallery PHOTOS --gallery-labels labels.csv --json r.json",
        r"labels\.csv .*1 file \(gone\.jpg\)",
        labels_of_a_missing_image,
    ),
    "unwritable output": Mistake(
        "fit images PHOTOS --out file/out", r"file/out/model\.json .*written", file_in_the_way
    ),
    "output that exists": Mistake("fit images PHOTOS --out model", "model exists.*--force.*--resume"),
}


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the photos."""
    files = (path for path in folder.rglob("*") if path.is_file() and folder / "PHOTOS" not in path.parents)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def answers(fitted: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Result, bool]]:
    """The answer to every mistake, and whether the folder is as it was before; two commands at a time."""

    def attempt(mistake: Mistake) -> tuple[Result, bool]:
        folder = tmp_path_factory.mktemp("mistake")
        (folder / "PHOTOS").symlink_to(fitted / "PHOTOS")
        (folder / "model").mkdir()
        for name in ("model.json", "model.safetensors"):
            shutil.copyfile(fitted / "runs" / "mine" / name, folder / "model" / name)
        mistake.prepare(folder)
        before = contents(folder)
        result = finish(start(*mistake.command.split(), cwd=folder))
        return result, contents(folder) == before

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(MISTAKES, pool.map(attempt, MISTAKES.values()), strict=True))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_by_one_sentence(name: str, answers: dict[str, tuple[Result, bool]]) -> None:
    result, untouched = answers[name]
    assert_refused(result)
    assert re.search(MISTAKES[name].answer, result.err)
    assert untouched
