"""A full or read-only disk at any step of what eigenmap writes: one sentence, nothing torn, and work can go on later.

`EIGENMAP_DISK_POINTS=all` fails at every change; the quick form at two of each operation. The long form on a real file
system is `python -m benchmarks reliability run "disk-*"`.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from eigenmap import EigenmapError
from tests.robustness import operations
from tests.robustness.failing_disk import FailingDisk, Kind
from tests.robustness.operation import Operation, make_inputs
from tests.robustness.test_power_cut import Nothing, content, versions

POINTS = None if os.environ.get("EIGENMAP_DISK_POINTS") == "all" else 2
SLOW = ("IndexCommand", "ManyChanges", "SaveEstimator", "Train")
"""Made only in the long form."""
KINDS = [kind for kind in operations.kinds() if POINTS is None or kind.__name__ not in SLOW]


@pytest.fixture(scope="module")
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_disk_that_fails_costs_nothing_but_time(
    kind: type[Operation], inputs: Path, disk: FailingDisk, tmp_path: Path
) -> None:
    operation = kind(inputs)
    with disk.failing("full", None):
        expected = versions(operation, tmp_path / "good")
    total, wrong = disk.changes, []
    chance = random.Random(kind.__name__)
    points = range(1, total + 1)
    for way in ("full", "read-only"):
        for point in points if POINTS is None else chance.sample(points, min(POINTS, len(points))):
            fault = _fault(operation, way, point, disk, tmp_path / f"{way} {point}", expected)
            wrong += [] if fault is None else [f"{way} from change {point} on: {fault}"]
    assert total > 2 and not wrong, "\n".join(wrong)


def _fault(
    operation: Operation, way: Kind, point: int, disk: FailingDisk, folder: Path, expected: list[object]
) -> str | None:
    """What is wrong after a disk failed from a change on; None if nothing is."""
    folder.mkdir()
    operation.prepare(folder)
    with disk.failing(way, point):
        try:
            operation.perform(folder, lambda _: None)
        except EigenmapError as error:
            if "\n" in str(error):
                return f"more than a sentence: {error}"
        except (OSError, AssertionError) as error:
            if not isinstance(error, AssertionError) or "cannot be written" not in str(error):
                return f"{type(error).__name__}: {error}"
    found = content(operation, folder)
    if found not in expected and not (operation.gap and isinstance(found, Nothing)):
        return f"what is there is none of the versions: {str(found)[:200]}"
    operation.perform(folder, lambda _: None)
    return None if content(operation, folder) == expected[-1] else "made again, it does not end with what it should"
