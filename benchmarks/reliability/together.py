"""Two processes with the same output: one waits or is refused, and the result is that of one or both.

    python -m benchmarks.reliability.together --rounds 10

Both commands of a pair start at the same moment, or in half of the rounds the second one slightly later.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reliability import outcome
from benchmarks.reliability.checking import said
from benchmarks.reliability.children import Ended, computed, eigenmap, load_libraries, start
from benchmarks.reliability.commands import Command, Content, commands, index_content, make_inputs
from benchmarks.reliability.outcome import Outcome


@dataclass(frozen=True)
class Pair:
    """Two commands that write to one place.

    Attributes:
        name: name of the pair.
        first: the first command, which also determines the initial content of the output.
        differs: words by which the second command differs.
        both: whether both may succeed; the result is then that of one after the other, in either order.

    """

    name: str
    first: Command
    differs: Callable[[Path], tuple[object, ...]]
    both: bool = False


def pairs() -> list[Pair]:
    every = commands()
    create = Command(
        "index",
        lambda inputs, place: (
            *("index", inputs / "model", inputs / "more.npy", "--out", place / "an.index"),
            *("--device", "cpu", "--quiet"),
        ),
        whole=lambda place: index_content(place) if (place / "an.index").exists() else {},
    )
    return [
        Pair("fit images", every["fit images"], lambda inputs: ("--seed", 1)),
        Pair("embed", every["embed"], lambda inputs: ("--dim", 4)),
        Pair("index", create, lambda inputs: ("--dim", 4)),
        Pair("index append", every["index append"], lambda inputs: ("--replace",), both=True),
        Pair("append nodes", every["append nodes"], lambda inputs: ("--batch-size", 64)),
        Pair("export", every["export parquet"], lambda inputs: ("--dim", 4)),
    ]


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    load_libraries()
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory(prefix="together") as name:
        inputs, place = Path(name) / "inputs", Path(name) / "place"
        make_inputs(inputs)
        for pair in pairs():
            alone = [_alone(pair, inputs, place, number) for number in range(2)]
            for number in range(given.rounds):
                pause = chance.uniform(0, 0.5) if number % 2 else 0.0
                _together(pair, inputs, place, alone, pause, found)


def _words(pair: Pair, inputs: Path, place: Path, number: int) -> tuple[object, ...]:
    return (*pair.first.words(inputs, place), *(pair.differs(inputs) if number else ()))


def _content(pair: Pair, place: Path) -> Content:
    content: Content = computed(lambda: pair.first.whole(place))
    return content


def _alone(pair: Pair, inputs: Path, place: Path, number: int) -> Content:
    pair.first.prepare(inputs, place)
    ended = eigenmap(*_words(pair, inputs, place, number))
    if ended.code != 0:
        raise RuntimeError(f"{pair.name} {number} alone: {ended.err}")
    return _content(pair, place)


def _together(pair: Pair, inputs: Path, place: Path, alone: list[Content], pause: float, found: Outcome) -> None:
    pair.first.prepare(inputs, place)
    first = start(_words(pair, inputs, place, 0))
    time.sleep(pause)
    second = start(_words(pair, inputs, place, 1))
    ended = [first.ended(), second.ended()]
    found.rounds += 1
    wrong = list(_faults(pair, place, alone, ended))
    codes = sorted(each.code for each in ended)
    found.counts["both succeeded, one after the other" if codes == [0, 0] else "one succeeded, one was refused"] += 1
    found.counts["bad" if wrong else "good"] += 1
    for what in wrong:
        found.fail(f"{pair.name}, {pause:.2f} s apart: {what}")


def _faults(pair: Pair, place: Path, alone: list[Content], ended: list[Ended]) -> list[str]:
    wrong = [f"one ended with {each.code}: {said(each)}" for each in ended if each.code != 0 and not each.is_refusal]
    winners = [number for number, each in enumerate(ended) if each.code == 0]
    if not winners:
        return [*wrong, f"both were refused: {said(ended[0])} / {said(ended[1])}"]
    if len(winners) == 2 and not pair.both:
        wrong.append("both succeeded")
    try:
        content = _content(pair, place)
    except RuntimeError as error:
        return [*wrong, f"torn: {str(error)[-300:]}"]
    if content not in [alone[number] for number in winners]:
        wrong.append("the result is not that of the one that succeeded")
    hidden = [path.name for path in place.rglob(".*")]
    return [*wrong, f"left behind: {', '.join(hidden)}"] if hidden else wrong


if __name__ == "__main__":
    outcome.run("together", __doc__, 10, experiment)
