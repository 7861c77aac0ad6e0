"""Picture of the rooms, for CONTRIBUTING.md.

    python docs/rooms.py        # writes docs/images/rooms.svg

Solid arrows lead from files to a model, dashed arrows from new items to answers. The picture has its own background,
light or dark by the reader's colour scheme.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parent / "images" / "rooms.svg"

WIDTH, HEIGHT = 960, 758
NAME_SIZE, TEXT_SIZE, MARGIN = 15, 13, 12

_STYLE = """
:root { --page: #ffffff; --panel: #f3f5f8; --room: #ffffff; --edge: #c3cad4; --ink: #1b212b; --soft: #566070;
        --way: #2f63c8; --use: #a4551c; --main: #e4edfd }
@media (prefers-color-scheme: dark) {
:root { --page: #14181f; --panel: #1b212b; --room: #262e3b; --edge: #465265; --ink: #eef2f7; --soft: #aeb8c6;
        --way: #86b0ff; --use: #f0a468; --main: #24395f } }
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--soft) }
.name { font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-weight: 600; fill: var(--ink) }
.heading { font-weight: 600; fill: var(--ink) }
.page { fill: var(--page) } .panel { fill: var(--panel) }
.room { fill: var(--room); stroke: var(--edge) } .main { fill: var(--main); stroke: var(--way) }
.way, .use { fill: none; stroke-width: 2 } .way { stroke: var(--way) }
.use { stroke: var(--use); stroke-dasharray: 5 4 }
.way-head { fill: var(--way) } .use-head { fill: var(--use) } .use-text { fill: var(--use) }
"""


class Room(NamedTuple):
    """A box with the name of a package or module and its purpose."""

    name: str
    x: int
    y: int
    width: int
    height: int
    lines: tuple[str, ...] = ()
    main: bool = False


class Arrow(NamedTuple):
    """A line through points, with a head at its end."""

    points: tuple[tuple[int, int], ...]
    new_items: bool = False


class Words(NamedTuple):
    """Text beside an arrow or above a column; it begins at x."""

    text: str
    x: int
    y: int
    kind: str = "plain"


PANELS = [(16, 98, 292, 572), (334, 98, 292, 572), (652, 98, 292, 572)]

ROOMS = [
    Room("cli", 16, 16, 292, 56, ("the commands, one folder per group",)),
    Room("estimators", 334, 16, 292, 56, ("scikit-learn estimators",)),
    Room("demo", 652, 16, 74, 56, ("a study",)),
    Room("detection", 732, 16, 103, 56, ("Mask R-CNN",)),
    Room("reproduce", 841, 16, 103, 56, ("the paper",)),
    # Files to pairs
    Room("data/images", 28, 176, 126, 92, ("folders, .npy,", ".npz, Parquet,", "as one stream")),
    Room("data/graphs", 162, 176, 134, 74, ("nodes, their", "features, edges")),
    Room("data/vectors", 162, 258, 134, 56, ("rows and pairs",)),
    Room("loading", 28, 314, 126, 74, ("pixels on", "the device")),
    Room("augment", 28, 440, 126, 74, ("two random", "views of each")),
    Room(
        "relations",
        28,
        568,
        268,
        90,
        ("which items belong together:", "views, edges, walks, kernels,", "neighbours, pairs of vectors"),
    ),
    # Pairs to a model
    Room("recipes", 346, 134, 130, 56, ("named settings",)),
    Room("networks", 484, 134, 130, 56, ("encoders",)),
    Room("objectives", 346, 200, 268, 56, ("losses on codes, one per file",)),
    Room("fitting", 346, 298, 268, 56, ("states a Problem and solves it",), main=True),
    Room("training", 346, 392, 130, 92, ("the loop,", "checkpoints,", "health")),
    Room("linear", 484, 392, 130, 92, ("closed form,", "for vectors")),
    Room("spectrum", 346, 518, 268, 74, ("alignment, eigenvalues,", "staged codes")),
    Room("kernels", 346, 602, 268, 56, ("eigenfunctions, for estimators",)),
    # A model to answers
    Room("description", 664, 134, 130, 56, ("of model.json",)),
    Room("saved", 802, 134, 130, 56, ("model files",)),
    Room("model", 664, 200, 180, 56, ("encode, save, load",), main=True),
    Room("hub", 852, 200, 80, 56, ("by name",)),
    Room("embedding", 664, 316, 268, 56, ("codes of any number of items",)),
    Room("search", 664, 404, 122, 74, ("an index of", "these codes")),
    Room("evaluation", 810, 404, 122, 74, ("retrieval,", "linear probes")),
    Room("service", 664, 506, 122, 74, ("the explorer", "in a browser")),
    Room("figures", 810, 506, 122, 74, ("plots and", "the report")),
    Room("export", 664, 602, 138, 56, ("ONNX and FAISS",)),
    Room("formats", 810, 602, 122, 56, ("arrays and SQL",)),
    Room("core", 16, 686, 928, 56, ("errors, argument checks, atomic files and folders; used by all other rooms",)),
]

ARROWS = [
    Arrow(((91, 152), (91, 173))),
    Arrow(((229, 152), (229, 173))),
    Arrow(((91, 268), (91, 311))),
    Arrow(((91, 388), (91, 437))),
    Arrow(((91, 514), (91, 565))),
    Arrow(((229, 314), (229, 565))),
    Arrow(((296, 596), (321, 596), (321, 326), (343, 326))),
    Arrow(((296, 630), (343, 630))),
    Arrow(((480, 256), (480, 295))),
    Arrow(((411, 354), (411, 389))),
    Arrow(((549, 354), (549, 389))),
    Arrow(((411, 484), (411, 515))),
    Arrow(((549, 484), (549, 515))),
    Arrow(((614, 555), (639, 555), (639, 228), (661, 228))),
    Arrow(((725, 256), (725, 313))),
    Arrow(((871, 292), (871, 313)), new_items=True),
    Arrow(((725, 372), (725, 401)), new_items=True),
    Arrow(((871, 372), (871, 401)), new_items=True),
    Arrow(((725, 478), (725, 503)), new_items=True),
    Arrow(((871, 478), (871, 503)), new_items=True),
    Arrow(((798, 372), (798, 599)), new_items=True),
]

WORDS = [
    Words("From files to pairs", 28, 122, "heading"),
    Words("From pairs to a model", 346, 122, "heading"),
    Words("From a model to answers", 664, 122, "heading"),
    Words("images", 69, 146),
    Words("graph, vectors", 184, 146),
    Words("new items", 838, 286, "use-text"),
    Words("runs/mine", 736, 289),
]


def svg() -> str:
    """Return the picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-label="The rooms of eigenmap and the path of data through them">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        *(f'<rect class="panel" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>' for x, y, w, h in PANELS),
        *map(_room, ROOMS),
        *map(_arrow, ARROWS),
        *(_text(words.text, words.x, words.y, words.kind) for words in WORDS),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(text: str, x: int, y: int, kind: str = "plain") -> str:
    size = NAME_SIZE if kind in ("name", "heading") else TEXT_SIZE
    return f'<text class="{kind}" x="{x}" y="{y}" font-size="{size}">{escape(text)}</text>'


def _room(room: Room) -> str:
    kind = "main" if room.main else "room"
    box = f'<rect class="{kind}" x="{room.x}" y="{room.y}" width="{room.width}" height="{room.height}" rx="6"/>'
    name = _text(room.name, room.x + MARGIN, room.y + 23, "name")
    lines = [_text(line, room.x + MARGIN, room.y + 43 + 18 * i) for i, line in enumerate(room.lines)]
    return "\n".join([box, name, *lines])


def _arrow(arrow: Arrow) -> str:
    kind = "use" if arrow.new_items else "way"
    (x0, y0), (x1, y1) = arrow.points[-2:]
    along, across = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    back = (x1 - 9 * along, y1 - 9 * across)
    side = (5 * across, 5 * along)
    line = " ".join(f"{x},{y}" for x, y in (*arrow.points[:-1], back))
    head = f"{x1},{y1} {back[0] - side[0]},{back[1] - side[1]} {back[0] + side[0]},{back[1] + side[1]}"
    return f'<polyline class="{kind}" points="{line}"/><polygon class="{kind}-head" points="{head}"/>'


if __name__ == "__main__":
    PICTURE.write_text(svg(), encoding="utf-8")
