"""Generator of docs/modalities.md: `python -m examples` runs every example and writes the page from its output."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from examples.common import text

NAMES = ("video", "audio", "point_clouds", "table")
PAGE = Path(__file__).parents[1] / "docs" / "modalities.md"
HEAD = """\
# Other modalities

Anything with two views can be learned from: two clips of a video, two crops of a recording, two samples of a surface,
two corrupted copies of a row. Turn each view into a vector and call `em.fit_vectors(first, pairs=second)`. What the
views share comes first in the codes; what differs between them comes last or not at all.

Each example is a short program in `examples/` that takes a few seconds on a CPU. It prints the accuracy of five nearest
neighbours (five folds). Four inputs are compared: a few of our features, as many principal components, as many random
features, and the whole vector. No method sees labels before that. This page is written by `python -m examples` from the
output of the programs.
"""


def page(printed: Mapping[str, str]) -> str:
    """Return the page, given the output of each example."""
    parts = [HEAD]
    for name in NAMES:
        heading, _, about = (import_module(f"examples.{name}").__doc__ or "").partition(": ")
        about = "\n".join(filter(None, about.strip().split("\n")))
        parts.append(
            f"## {heading}\n\n{about[:1].upper()}{about[1:]}\n\n"
            f"    python -m examples.{name}\n\n```\n{printed[name]}\n```\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Run all examples and write the page."""
    printed = {}
    for name in NAMES:
        example = import_module(f"examples.{name}")
        printed[name] = text(example.TITLE, example.main())
        print(printed[name], flush=True)
    PAGE.write_text(page(printed), encoding="utf-8")


if __name__ == "__main__":
    main()
