"""Transcripts: how-to pages whose examples are run and whose outputs come from the program.

    python tools/transcripts.py docs/howto/*.md          # run every example, write the outputs into the pages
    python tools/transcripts.py --quick docs/howto/*.md  # run smaller versions and change nothing, as the tests do

A page is Markdown. In a ```console block, lines that begin with "$ " are commands, and the rest is their output. A
```python block is executed; a ```text block directly after it shows its output. The blocks of a page share one working
folder and one Python namespace. Comments direct the run:

    <!-- data: photos -->              put sample data into the folder, as `eigenmap demo --data photos` does
    <!-- quick: --minutes 2 => --steps 4 -->    replace text in the next block, with --quick only
    <!-- draw: NAME docs/images/x.png -->    draw a picture of the page (a function of tools/pictures.py)
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 100
LONGEST = 40
"""Maximum number of lines of output; the middle of longer outputs is left out."""
_BLOCK = re.compile(
    r"^<!-- (?P<what>data|quick|draw): (?P<about>.*?) -->$"
    r"|^```(?P<language>console|python)\n(?P<body>.*?)^```$(?P<output>\n\n```text\n.*?^```$)?",
    re.MULTILINE | re.DOTALL,
)


class ExampleError(Exception):
    """An example that failed."""


@dataclass
class Run:
    """The examples of one page, run in one folder."""

    folder: Path
    quick: bool = False
    names: dict[str, Any] = field(default_factory=dict)
    replacements: list[tuple[str, str]] = field(default_factory=list)
    examples: int = 0
    log: list[str] = field(default_factory=list)
    """Every command and block as it was run, with its output."""

    def page(self, text: str) -> str:
        """Run the examples of a page, and return the page with their outputs."""
        return _BLOCK.sub(self._block, text)

    def _block(self, found: re.Match[str]) -> str:
        if found["what"]:
            self._direct(found["what"], found["about"])
            return found[0]
        body = found["body"]
        self.examples += 1
        if unused := [old for old, _ in self.replacements if old not in body]:
            raise ExampleError(f"there is no {unused[0]!r} to replace in {body!r}")
        try:
            if found["language"] == "console":
                return "```console\n" + "".join(self._console(body)) + "```"
            printed = self._python(self._small(body))
        finally:
            self.replacements = []
        return f"```python\n{body}```" + (f"\n\n```text\n{printed}```" if found["output"] else "")

    def _direct(self, what: str, about: str) -> None:
        if what == "quick":
            old, _, new = about.partition(" => ")
            self.replacements.append((old, new))
        elif what == "data":
            from eigenmap.demo import samples

            samples.write(about, self.folder, small=self.quick)
        else:
            self._draw(*about.split())

    def _draw(self, name: str, target: str) -> None:
        sys.path.insert(0, str(ROOT / "tools"))
        import pictures

        with _inside(self.folder):
            pictures.draw(name, self.names, Path("picture.png") if self.quick else ROOT / target)

    def _small(self, text: str) -> str:
        for old, new in self.replacements if self.quick else []:
            text = text.replace(old, new)
        return text

    def _console(self, body: str) -> Iterator[str]:
        """Run the commands of a block; a backslash at the end of a line continues it."""
        for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", body, re.MULTILINE):
            output = self._shell(self._small(command))
            self.log.append(f"$ {self._small(command)}\n{output}")
            yield f"$ {command}\n"
            yield output

    def _shell(self, command: str) -> str:
        if self.quick and (words := _own_words(command)):
            return self._here(words)
        paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env={**os.environ, "PATH": paths, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ExampleError(f"{command} ended with exit code {done.returncode}:\n{done.stdout}")
        return _shown(done.stdout)

    def _here(self, words: list[str]) -> str:
        """Run a command of eigenmap in this process: the small form does not start Python for each."""
        from typer.testing import CliRunner

        from eigenmap.cli import app

        with _inside(self.folder):
            done = CliRunner().invoke(app, words)
        if done.exit_code:
            raise ExampleError(
                f"eigenmap {' '.join(words)} ended with {done.exit_code}:\n{done.output}{done.exception}"
            )
        return _shown(done.output)

    def _python(self, code: str) -> str:
        printed = io.StringIO()
        with _inside(self.folder), redirect_stdout(printed):
            exec(compile(code, "<example>", "exec"), self.names)
        shown = _shown(printed.getvalue())
        self.log.append("".join(f">>> {line}\n" for line in code.splitlines()) + shown)
        return shown


def _own_words(command: str) -> list[str] | None:
    """Return the words after `eigenmap` in a command that needs no shell, None for others."""
    plain = command.startswith("eigenmap ") and not re.search(r"[|;&<>$*`]", command)
    return shlex.split(command.replace("\\\n", " "))[1:] if plain else None


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _shown(output: str) -> str:
    lines = [line.rstrip() for line in output.rstrip().splitlines()]
    if len(lines) > LONGEST:
        half = LONGEST // 2
        lines = [*lines[:half], "...", *lines[-half:]]
    return "".join(f"{line}\n" for line in lines)


def run_page(path: Path, quick: bool, log: list[str] | None = None) -> tuple[str, int]:
    """Run the examples of a page in a new folder; return the page with their outputs, and their number.

    Everything that was run is appended to `log`.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), quick, log=[] if log is None else log)
        return run.page(path.read_text(encoding="utf-8")), run.examples


def main() -> int:
    """Run pages, and write their outputs unless --quick is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--quick", action="store_true", help="run smaller versions and change nothing")
    parser.add_argument("--log", type=Path, help="write what was run, with its output, into this file")
    arguments = parser.parse_args()
    log: list[str] = []
    for path in arguments.pages:
        log.append(f"# {path.name}\n")
        try:
            text, examples = run_page(path, arguments.quick, log)
        except ExampleError as error:
            print(f"{path}: {error}")
            return 1
        if not arguments.quick:
            path.write_text(text, encoding="utf-8")
        print(f"{path}: {examples} examples")
    if arguments.log is not None:
        arguments.log.write_text("\n".join(log), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
