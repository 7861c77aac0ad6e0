"""Indexes that format version 2 wrote open as they are, and become version 3 by their first change."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex
from eigenmap.search.log import read_log

IDS = ["2.jpg", "3.jpg", "4.jpg", "5.jpg", "6.jpg", "7.jpg", "1.jpg", "ü.jpg", "11.jpg"]
CODES = np.random.default_rng(0).standard_normal((12, 10)).astype(np.float32)
"""What it was written from: rows 0-8 as 0.jpg ... 7.jpg, then 1.jpg, 9.jpg, ü.jpg and 11.jpg; 0 and 9 were deleted."""


@pytest.fixture
def old(tmp_path):
    return Path(shutil.copytree(Path(__file__).with_name("version2.index"), tmp_path / "old.index"))


def version(path):
    return json.loads((path / "index.json").read_text())["format_version"]


def content(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_it_is_read_and_left_as_it_is(old):
    before = content(old)
    index = CodeIndex.open(old)
    assert index.ids == IDS and index.metadata(["3.jpg", "1.jpg"]) == [{"label": "cat"}, {"label": "cat"}]
    np.testing.assert_allclose(index.codes(["2.jpg", "ü.jpg"]), CODES[[2, 10]], atol=0.05)
    assert any(re.search("^log: 4 lines.*version 2", line) for line in index.verify())
    assert content(old) == before and version(old) == 2


@pytest.mark.parametrize("change", ["add", "delete"])
def test_the_first_change_makes_it_version_3(old, change):
    reader, index = CodeIndex.open(old), CodeIndex.open(old)
    if change == "add":
        index.add(CODES[:1], ["new.jpg"])
    else:
        index.delete(["ü.jpg"])
    expected = [*IDS, "new.jpg"] if change == "add" else [name for name in IDS if name != "ü.jpg"]
    assert reader.ids == CodeIndex.open(old).ids == expected
    assert version(old) == 3
    log = read_log((old / "log").read_bytes())
    assert log.chained and log.lines == 2 and {"index.json", "codec.json"} <= log.state.fixed.keys()
    assert any(line.startswith("index.json: ") for line in CodeIndex.open(old).verify())


def test_a_torn_end_of_it_is_left_out(old):
    data = (old / "log").read_bytes()
    (old / "log").write_bytes(data[:-5])
    assert len(CodeIndex.open(old)) == 11  # the last change deleted two


def test_a_damaged_line_of_it_is_damage(old):
    data = bytearray((old / "log").read_bytes())
    data[len(data) // 2] ^= 1
    (old / "log").write_bytes(data)
    before = content(old)
    with pytest.raises(EigenmapError, match=r"old\.index/log.*line 3.*checksum"):
        CodeIndex.open(old)
    assert content(old) == before
