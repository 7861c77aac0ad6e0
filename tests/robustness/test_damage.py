"""Damaged and hostile files: an error that names the file, or a result that can be used, and nothing else.

The suite damages each kind of file some twenty times, from fixed seeds. `EIGENMAP_DAMAGE_ROUNDS=2000` makes that 2,000
blind damages for each kind, and all of those that know the format.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from eigenmap.training.provenance import peak_memory_mb
from tests.robustness.damage import Damage, blindly
from tests.robustness.judging import judged, sampled
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
    rights = subject.rights(good)
    content = (good / subject.file).read_bytes()
    before = peak_memory_mb() or 0
    failures = []
    for number, damage in enumerate(_damages(subject, content)):
        fault = judged(subject, good, tmp_path / str(number), rights, damage).fault
        failures += [] if fault is None else [fault]
    assert not failures, f"{len(failures)}:\n" + "\n".join(failures[:40])
    assert (peak_memory_mb() or 0) - before < MOST_MEMORY_MB


def _damages(subject: Subject, content: bytes) -> Iterator[Damage]:
    rng = random.Random(subject.name)
    yield from subject.damages(content) if KNOWING is None else sampled(subject.damages(content), KNOWING, rng)
    for _ in range(BLIND):
        yield blindly(content, rng)
