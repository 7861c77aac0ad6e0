"""Every example of the how-tos runs, in its small form."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run(page: Path) -> None:
    before = page.read_bytes()
    command = [sys.executable, str(ROOT / "tools" / "transcripts.py"), "--quick", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(" examples\n") and " 0 examples" not in done.stdout
    assert page.read_bytes() == before
