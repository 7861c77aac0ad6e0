"""Run every example and write docs/modalities.md from what it prints: `python -m examples`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from examples.common import text

NAMES = ("video", "audio", "point_clouds", "table")
PAGE = Path(__file__).parents[1] / "docs" / "modalities.md"
HEAD = """\
# Other modalities

Anything that can be seen twice can be learned from: two clips of a video, two crops of a recording, two samples of a
surface, two damaged copies of a row. Make a vector of each view and call `em.fit_vectors(first, pairs=second)`. What
the views share comes first in the codes, and what differs between them comes last or not at all.

Each example is a short program in `examples/` that takes a few seconds on a CPU. It prints how many things five nearest
neighbours put into the right class (five folds), by a few features of ours, by as many principal components, by as many
random features, and by all numbers of the vector. No method sees labels before that. This page is written by
`python -m examples` from what the programs print.
"""


def page(printed: Mapping[str, str]) -> str:
    """The page, given what each example prints."""
    parts = [HEAD]
    for name in NAMES:
        title, _, about = (import_module(f"examples.{name}").__doc__ or "").partition("\n")
        parts.append(
            f"## {title.partition(':')[0]}\n\n{title}\n{about.strip()}\n\n"
            f"    python -m examples.{name}\n\n```\n{printed[name]}\n```\n"
        )
    return "\n".join(parts)


def main() -> None:
    """Run all and write the page."""
    printed = {}
    for name in NAMES:
        example = import_module(f"examples.{name}")
        printed[name] = text(example.TITLE, example.main())
        print(printed[name], flush=True)
    PAGE.write_text(page(printed), encoding="utf-8")


if __name__ == "__main__":
    main()
