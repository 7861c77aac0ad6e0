"""Shell completion: what bash asks the command, and what it is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def completed(*words: str) -> list[str]:
    """Ask as the function does that `eigenmap --install-completion` writes; the last word is being typed."""
    asked = {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1), "_EIGENMAP_COMPLETE": "complete_bash"}
    program = Path(sys.executable).with_name("eigenmap")
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("eigenmap", "fi"), {"fit", "figures"}),
        (("eigenmap", "fit", ""), {"images", "graph", "vectors", "towers"}),
        (("eigenmap", "fit", "images", "--conf"), {"--config"}),
        (("eigenmap", "fit", "images", "--device", ""), {"auto", "cpu", "cuda", "mps"}),
    ],
)
def test_verbs_options_and_values_are_completed(words: tuple[str, ...], expected: set[str]) -> None:
    assert set(completed(*words)) == expected


def test_the_function_for_bash_is_installed(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("eigenmap")
    home = {**os.environ, "HOME": str(tmp_path), "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    install = ["bash", "-c", "eigenmap --install-completion; exit $?"]  # it installs for the shell it is called from
    subprocess.run(install, env=home, check=True, capture_output=True)
    words = "COMP_WORDS=(eigenmap fit vec); COMP_CWORD=2; _eigenmap_completion eigenmap; echo ${COMPREPLY[@]}"
    shell = ["bash", "--noprofile", "--norc", "-c", f"source ~/.bash_completions/eigenmap.sh; {words}"]
    done = subprocess.run(shell, env=home, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["vectors"]
