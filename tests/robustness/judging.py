"""What a reader may make of a damaged file: one sentence that names it, or a result that can be used."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from eigenmap import EigenmapError
from tests.robustness.damage import Damage
from tests.robustness.subjects import Subject

Judgement = Literal["refused", "the same result", "another result"]


class Verdict(NamedTuple):
    """What became of a damaged file; `fault` says what is wrong with the reader, if anything is."""

    judgement: Judgement
    fault: str | None = None


def judged(subject: Subject, good: Path, folder: Path, rights: list[Any], damage: Damage) -> Verdict:
    """Read a damaged copy of a good folder, which is removed afterwards."""
    shutil.copytree(good, folder)
    try:
        (folder / subject.file).write_bytes(damage.content)
        return _verdict(subject, folder, rights, damage)
    finally:
        shutil.rmtree(folder)


def _verdict(subject: Subject, folder: Path, rights: list[Any], damage: Damage) -> Verdict:
    try:
        found = subject.read(folder)
    except EigenmapError as error:
        named = _names_file(subject, folder, str(error))
        return Verdict("refused", None if named else f"{damage.what}: no file is named: {error}")
    except Exception as error:  # what it is about
        return Verdict("refused", f"{damage.what}: {type(error).__name__}: {str(error)[:200]}")
    if found in rights:
        return Verdict("the same result")
    fault = f"{damage.what}: another result, and no error" if subject.exact else None
    return Verdict("another result", fault)


def _names_file(subject: Subject, folder: Path, sentence: str) -> bool:
    """Whether the sentence says which file, folder or picture it is about, and advises nothing unsafe."""
    named = str(folder) in sentence or Path(subject.file).name in sentence or sentence.startswith("none of the ")
    return named and "weights_only" not in sentence and "allow_pickle" not in sentence


def sampled(damages: Iterator[Damage], count: int, rng: random.Random) -> list[Damage]:
    """A sample of those, never all of them in memory."""
    kept: list[Damage] = []
    for number, damage in enumerate(damages):
        place = number if number < count else rng.randrange(number + 1)
        if place < count:
            kept[place : place + 1] = [damage]
    return kept
