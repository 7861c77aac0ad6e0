"""README and how-tos followed literally, in a fresh clone with an empty home and nothing installed by hand.

    python tools/fresh_clone.py                              # make demo, then every page, in full
    python tools/fresh_clone.py --append --skip-demo docs/howto/graph.md    # one page, after make setup

`docs/transcripts/fresh-clone.txt` gets every command with its output, and the pages get their outputs and pictures. The
commit is the last one; uncommitted changes are refused. Needs git, make, a Python with venv, and a package index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRANSCRIPT = ROOT / "docs" / "transcripts" / "fresh-clone.txt"
PAGES = [
    *("README.md", "docs/quickstart.md", "docs/lengths.md"),
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs" / "howto").glob("*.md"))),
]


def main() -> int:
    """Clone, install, run the pages, and write what happened; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", default=PAGES, help="pages to follow; README, quickstart and all how-tos")
    parser.add_argument("--skip-demo", action="store_true", help="run `make setup` instead of `make demo`")
    parser.add_argument("--append", action="store_true", help="keep what the transcript holds, and add to it")
    parser.add_argument("--work", type=Path, help="new folder for the clone; a temporary one by default")
    arguments = parser.parse_args()
    if _git("status", "--porcelain"):
        print("there are uncommitted changes; commit them first")
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        work = (arguments.work or Path(temporary) / "work").resolve()
        (work / "home").mkdir(parents=True)
        clone = work / "eigenmap"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)], check=True)
        goal = "setup" if arguments.skip_demo else "demo"
        parts = [_heading(), "$ git clone eigenmap && cd eigenmap\n"]
        _run(["make", "setup"], clone)  # apart, since pip says where it looks for packages
        printed = _run(["make", goal], clone)
        parts += [f"$ make {goal}\n{printed}", "$ . .venv/bin/activate\n"]
        log = work / "log.txt"
        _run([".venv/bin/python", "tools/transcripts.py", "--log", str(log), *arguments.pages], clone)
        parts.append(log.read_text(encoding="utf-8"))
        kept = [TRANSCRIPT.read_text(encoding="utf-8"), "\n"] if arguments.append else []
        text = "\n".join([*kept, *parts]).replace(str(clone), ".")
        TRANSCRIPT.write_text(text, encoding="utf-8")
        for name in (*arguments.pages, *_git("diff", "--name-only", "--", "docs/images", place=clone).split()):
            shutil.copyfile(clone / name, ROOT / name)
    print(f"{TRANSCRIPT.relative_to(ROOT)}: {len(arguments.pages)} pages")
    return 0


def _heading() -> str:
    now = datetime.now(timezone.utc)
    machine = f"{os.cpu_count()} cores, threads: {os.environ.get('OMP_NUM_THREADS', 'all')}"
    return (
        f"Fresh clone of commit {_git('rev-parse', '--short=8', 'HEAD')}, empty home, nothing installed by hand,\n"
        f"{now.day} {now:%B %Y}, Python {sys.version.split()[0]}, {machine}.\n"
        "Written by tools/fresh_clone.py.\n"
    )


def _run(command: list[str], clone: Path) -> str:
    """Run a command in the clone as a new user would; return what it printed, shortened in the middle."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    paths = os.pathsep.join([str(Path(sys.executable).resolve().parent), "/usr/local/bin", "/usr/bin", "/bin"])
    env = {**kept, "HOME": str(clone.parent / "home"), "PATH": paths, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        command, cwd=clone, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, flush=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {done.returncode}")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    return "".join(f"{line}\n" for line in (lines if len(lines) <= 80 else [*lines[:20], "...", *lines[-60:]]))


def _git(*words: str, place: Path = ROOT) -> str:
    return subprocess.run(["git", *words], cwd=place, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
