"""Damaged and hostile files: an error that names the file, or a result that can be used, and nothing else.

The suite damages each kind of file some twenty times, from fixed seeds. `EIGENMAP_DAMAGE_ROUNDS=2000` makes that 2,000
blind damages for each kind, and all of those that know the format.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eigenmap import EigenmapError
from eigenmap.training.provenance import peak_memory_mb
from tests.robustness.damage import Damage, blindly
from tests.robustness.subjects import SUBJECTS, Subject

ROUNDS = int(os.environ.get("EIGENMAP_DAMAGE_ROUNDS", "0"))
BLIND, KNOWING = (ROUNDS, None) if ROUNDS else (6, 14)
MOST_MEMORY_MB = 1500
"""More than all of this takes, and less than anything that a header may claim."""


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_damage_is_one_sentence_or_no_harm(subject: Subject, tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    subject.write(good)
    right = subject.read(good)
    content = (good / subject.file).read_bytes()
    before = peak_memory_mb() or 0
    failures = []
    for number, damage in enumerate(_damages(subject, content)):
        folder = tmp_path / str(number)
        shutil.copytree(good, folder)
        (folder / subject.file).write_bytes(damage.content)
        failures += _fault(subject, folder, right, damage)
        shutil.rmtree(folder)
    assert not failures, f"{len(failures)}:\n" + "\n".join(failures[:40])
    assert (peak_memory_mb() or 0) - before < MOST_MEMORY_MB


def _damages(subject: Subject, content: bytes) -> Iterator[Damage]:
    rng = random.Random(subject.name)
    yield from subject.damages(content) if KNOWING is None else _some(subject.damages(content), KNOWING, rng)
    for _ in range(BLIND):
        yield blindly(content, rng)


def _some(damages: Iterator[Damage], count: int, rng: random.Random) -> list[Damage]:
    """A sample of those, never all of them in memory."""
    kept: list[Damage] = []
    for number, damage in enumerate(damages):
        place = number if number < count else rng.randrange(number + 1)
        if place < count:
            kept[place : place + 1] = [damage]
    return kept


def _fault(subject: Subject, folder: Path, right: Any, damage: Damage) -> list[str]:
    """What is wrong with the reader, if anything is."""
    try:
        found = subject.read(folder)
    except EigenmapError as error:
        return [] if _names_file(subject, folder, str(error)) else [f"{damage.what}: no file is named: {error}"]
    except Exception as error:  # what the test is about
        return [f"{damage.what}: {type(error).__name__}: {str(error)[:200]}"]
    if subject.exact and found != right:
        return [f"{damage.what}: another result, and no error"]
    return []


def _names_file(subject: Subject, folder: Path, sentence: str) -> bool:
    """Whether the sentence says which file, folder or picture it is about, and advises nothing unsafe."""
    named = str(folder) in sentence or Path(subject.file).name in sentence or sentence.startswith("none of the ")
    return named and "weights_only" not in sentence and "allow_pickle" not in sentence
