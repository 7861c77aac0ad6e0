"""An index whose writer was killed holds every acknowledged change, and the one in flight whole or not at all.

The quick form kills at every second point; EIGENMAP_KILLS=all kills at every point, and 500 times at random.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ALL = os.environ.get("EIGENMAP_KILLS") == "all"


def run(*words):
    result = subprocess.run(
        [sys.executable, "-m", "tests.search.killing", *map(str, words)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_a_kill_at_any_point_of_a_change(tmp_path):
    points = run("every", tmp_path, 1 if ALL else 2)
    assert len(points) == (10 if ALL else 8) and all(count > 8 for count in points.values()), points
    assert sum(points.values()) > 300


def test_a_kill_at_random(tmp_path):
    rounds = 500 if ALL else 40
    assert run("random", tmp_path, rounds) == rounds
