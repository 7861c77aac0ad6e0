"""A power cut at any moment: what was acknowledged is there, and nothing else by halves.

All operations are made once under strace; their system calls are then replayed on a disk that forgets what was not
synced (`disk`). States that it may be in after every call are written to a folder, read by eigenmap's own readers, and
worked on: the same operation, made again, must end well. EIGENMAP_CRASH_SUBSETS=5 takes all of them, and many more.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eigenmap import EigenmapError
from tests.robustness import operations
from tests.robustness.operation import Operation
from tests.robustness.operations import kinds
from tests.robustness.recording import Call, record
from tests.robustness.replay import Replay, State, write_tree

ROOT = Path(__file__).parents[2]
SUBSETS = int(os.environ.get("EIGENMAP_CRASH_SUBSETS", "0"))
"""So many random subsets of the changes that were not synced are taken after each call, beside the classic cases."""
STATES, REPEATS = (sys.maxsize, sys.maxsize) if SUBSETS else (300, 15)
"""So many states of an operation, evenly spread, are read, and so many of these are worked on."""


@dataclass(frozen=True)
class Nothing:
    """No reader finds anything, and says so in a sentence."""

    reason: str = field(compare=False)


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """A folder in memory, where there is one: thousands of states are written."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder).resolve()


@pytest.fixture(scope="module")
def recorded(scratch: Path) -> dict[str, list[Call]]:
    """The system calls of every operation."""
    root = scratch / "recorded"
    root.mkdir()
    command = [sys.executable, "-m", operations.__name__, str(root)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    calls = record(command, scratch / "trace", ROOT, environment)
    marks, found, name = Replay(root, root / "marks"), dict[str, list[Call]](), ""
    for call in calls:
        mark = marks.mark(call) or ""
        if mark.startswith("operation "):
            name = mark.removeprefix("operation ")
        elif name:
            found.setdefault(name, []).append(call)
    return found


def content(operation: Operation, folder: Path) -> object:
    """What a reader finds; a clear error is nothing."""
    try:
        return operation.read(folder)
    except EigenmapError as error:
        return Nothing(str(error))


def versions(operation: Operation, folder: Path) -> list[object]:
    """What is there before, and after each acknowledgement."""
    folder.mkdir(parents=True)
    operation.prepare(folder)
    found = [content(operation, folder)]
    operation.perform(folder, lambda _: found.append(content(operation, folder)))
    assert not any(isinstance(version, Nothing) for version in found[1:])
    return found


def loss(operation: Operation, state: State, folder: Path, expected: list[object], repeat: bool) -> str | None:
    """What is wrong with a state that a power cut may leave; None if nothing is."""
    write_tree(state.tree, folder)
    done = len(state.acknowledged)
    try:
        found = content(operation, folder)
        if found not in expected[done : done + 2] and not (operation.gap and isinstance(found, Nothing)):
            what = f"version {expected.index(found)}" if found in expected else "a mixture"
            what = f"nothing ({found.reason})" if isinstance(found, Nothing) else what
            return f"version {done} was acknowledged, and {what} is there"
        if repeat:
            operation.perform(folder, lambda _: None)
            if content(operation, folder) != expected[-1]:
                return "the operation, made again, does not end with what it should"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(folder)
    return None


def spread(states: list[State], most: int) -> list[State]:
    """At most so many, evenly spread, the last one among them."""
    return states[:: -math.ceil(len(states) / most)]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_what_is_acknowledged_survives_and_nothing_is_there_by_halves(
    kind: type[Operation], recorded: dict[str, list[Call]], scratch: Path
) -> None:
    root, name = scratch / "recorded", kind.__name__
    operation = kind(root / "inputs")
    expected = versions(operation, scratch / "versions" / name)
    states = list(Replay(root / name, root / "marks").states(recorded[name], SUBSETS))
    chosen = spread(states, STATES)
    worked_on = {id(state) for state in spread(chosen, REPEATS)}
    losses = []
    for state in chosen:
        wrong = loss(operation, state, scratch / "state", expected, repeat=id(state) in worked_on)
        if wrong is not None:
            losses.append(f"cut after {state.last}: {wrong}; files: {' '.join(sorted(state.tree))}")
    print(f"{name}: {len(chosen)} of {len(states)} states, {len(losses)} losses")
    assert len(states) > 5
    assert not losses, f"{len(losses)} of {len(chosen)} states are bad:\n" + "\n".join(losses[:5])
