"""`eigenmap reproduce table-1 --devices 2`: all methods of the table on two processes, printed once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.end_to_end.process import ENVIRONMENT


def test_table_1_on_two_processes(tmp_path: Path) -> None:
    # Further processes begin the same command anew, so that it has to be a file.
    (tmp_path / "eigenmap.py").write_text("from eigenmap.cli import main\n\nmain()\n")
    words = (
        "reproduce",
        "table-1",
        "--scale",
        "tiny",
        "--device",
        "cpu",
        "--devices",
        2,
        "--json",
        tmp_path / "t.json",
    )
    done = subprocess.run(
        [sys.executable, tmp_path / "eigenmap.py", *map(str, words)],
        env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "lo", "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert len(rows) == 8 and min(row["linear"] for row in rows) > 0.4  # four classes
    assert done.stdout.count("test images, percent") == 1 and done.stderr.count("BYOL ...") == 1
