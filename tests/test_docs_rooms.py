"""The picture of the rooms in CONTRIBUTING.md."""

from __future__ import annotations

import importlib.util
from itertools import combinations
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
WIDTH_OF_NAME, WIDTH_OF_TEXT = 0.61, 0.56
"""Width of a character relative to the font size: monospaced names, and the average of other text."""


@pytest.fixture(scope="module")
def rooms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rooms", ROOT / "docs" / "rooms.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rooms_of_the_package() -> set[str]:
    """Return the packages and modules at the top of the package, with each kind of data separately."""
    package = ROOT / "src" / "eigenmap"
    found = {path.parent.name for path in package.glob("*/__init__.py")} | {path.stem for path in package.glob("*.py")}
    kinds = {f"data/{path.parent.name}" for path in package.glob("data/*/__init__.py")}
    return found - {"__init__", "__main__", "data"} | kinds


def test_every_room_is_in_the_picture(rooms: ModuleType) -> None:
    names = [room.name for room in rooms.ROOMS]
    assert set(names) == rooms_of_the_package()
    assert len(set(names)) == len(names)


def test_the_stored_picture_is_the_one_that_is_drawn(rooms: ModuleType) -> None:
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.svg()
    texts = {element.text for element in ElementTree.parse(rooms.PICTURE).iter("{http://www.w3.org/2000/svg}text")}
    assert rooms_of_the_package() <= texts
    assert f"({rooms.PICTURE.relative_to(ROOT)})" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_rooms_lie_beside_each_other_and_hold_their_texts(rooms: ModuleType) -> None:
    for one, other in combinations(rooms.ROOMS, 2):
        beside = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert beside or one.y + one.height <= other.y or other.y + other.height <= one.y, (one.name, other.name)
    for room in rooms.ROOMS:
        inner = room.width - 2 * rooms.MARGIN
        assert len(room.name) * WIDTH_OF_NAME * rooms.NAME_SIZE <= inner + 4, room.name
        assert all(len(line) * WIDTH_OF_TEXT * rooms.TEXT_SIZE <= inner + 4 for line in room.lines), room.name
        assert 43 + 18 * (len(room.lines) - 1) < room.height, room.name
        assert room.x + room.width <= rooms.WIDTH and room.y + room.height <= rooms.HEIGHT
