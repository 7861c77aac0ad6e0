"""A quoted sentence: its page, its words with named figures, and the computation of those figures."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+|(?=\.\d))(?:\.\d+)?"
LIST = rf"{NUMBER}(?:(?:, and |, | and | to ){NUMBER})*"
GENERATED = re.compile(r"<!-- [\w-]+: written by .*?<!-- end of tables -->", re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
ASIDE = re.compile(r"`[^`]*`|\]\([^)]*\)|https?://\S+")
"""Inline code and addresses: numbers in them are settings and names."""
MEASURED = re.compile(r"(?<![\w.])(?:\d[\d,]*)?\.\d+(?![\w.]*\d)|(?<![\w.])\d[\d,]*(?:\.\d+)? ?%")
"""A number with a decimal point or a percent sign."""

Figures = Mapping[str, float | Sequence[float]]


@dataclass(frozen=True)
class Quote:
    """`{name}` in the words stands for one figure, or for several joined by commas, "and" or "to"."""

    page: str
    words: str
    figures: Callable[[], Figures]

    @property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\w+)\}", self.words)
        return re.compile("".join(f"(?P<{p}>{LIST})" if i % 2 else re.escape(p) for i, p in enumerate(parts)))

    def wrong(self) -> list[str]:
        """What is wrong with the sentence: it is gone, or a figure is not what the results say."""
        found = self.pattern.search(text(self.page))
        if found is None:
            return [f"{self.page} no longer says: {self.words}"]
        computed = self.figures()
        assert set(computed) == set(self.pattern.groupindex), "the words and the computation name other figures"
        return [
            f"{self.page} says {name} = {found[name]}, the results say {', '.join(f'{value:.5g}' for value in values)}"
            for name, values in ((name, _several(values)) for name, values in computed.items())
            if not agree(found[name], values)
        ]


def agree(printed: str, values: Sequence[float]) -> bool:
    """Whether the printed figures are these values, each rounded to the decimals that are printed."""
    figures = [figure.replace(",", "") for figure in re.findall(NUMBER, printed)]
    return len(figures) == len(values) and all(
        float(figure) == round(value, len(figure.partition(".")[2]))
        for figure, value in zip(figures, values, strict=True)
    )


def _several(values: float | Sequence[float]) -> Sequence[float]:
    return [values] if isinstance(values, (int, float)) else values


@cache
def text(page: str) -> str:
    """The hand-written sentences of a page on one line: without generated parts, tables and blocks of code."""
    return sentences((ROOT / page).read_text(encoding="utf-8"))


def sentences(markdown: str) -> str:
    """The same of a text."""
    kept = FENCED.sub("", GENERATED.sub("", markdown)).splitlines()
    return " ".join(" ".join(line for line in kept if not line.startswith(("    ", "|"))).split())


def uncovered(sentences: str, known: Sequence[re.Pattern[str]]) -> Iterator[str]:
    """Numbers with a decimal point or a percent sign outside every known pattern, each with what stands around it."""
    spans = [found.span() for pattern in (*known, ASIDE) for found in pattern.finditer(sentences)]
    for number in MEASURED.finditer(sentences):
        if not any(begin <= number.start() and number.end() <= end for begin, end in spans):
            yield f"{number[0]}: ...{sentences[max(0, number.start() - 60) : number.end() + 40]}..."


@cache
def result(name: str) -> Any:
    """A result file by its study and name."""
    study, _, file = name.partition("/")
    return json.loads((ROOT / "benchmarks" / study / "results" / f"{file}.json").read_text(encoding="utf-8"))
