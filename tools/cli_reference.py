"""Reference of the command line as a page, made from the program: `python tools/cli_reference.py` prints it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

HEAD = """# Command line

Every verb, option and default, as the program states them. `eigenmap VERB --help` prints the same.

- **Errors.** A mistake in the input gives a one-sentence error and exit code 2. So does a standard output that cannot
  be written because the disk is full or the stream is closed.
- **Closed pipes.** If the reader has gone (`eigenmap search ... | head -1`), the command ends silently with exit code
  141, as a signal would.
- **Notes and progress** go to standard error. If they cannot be written, they are dropped and the work continues.
- **Encodings.** Characters that the output stream cannot encode are escaped. So are control characters in file names;
  JSON files keep the true names.
- **Completion.** `eigenmap --install-completion` teaches your shell the verbs and options; a new shell has them.
"""


def page() -> str:
    """Return the page."""
    import typer

    from eigenmap.cli import app

    root = typer.main.get_command(app)
    return "\n".join([HEAD, *_described(root, "eigenmap", 2)])


def _described(command: Any, name: str, level: int) -> Iterator[str]:
    """Yield the lines on a command and on those below it, in the order of the help."""
    yield f"{'#' * min(level, 4)} `{name}`\n"
    if command.help:
        yield _plain(command.help) + "\n"
    if examples := _examples(command.epilog or ""):
        yield "\n".join(f"    {line}" for line in examples) + "\n"
    yield from _parameters(command)
    below = getattr(command, "commands", {})
    context = _context(command, name)
    for verb in command.list_commands(context) if below else ():
        yield from _described(below[verb], f"{name} {verb}", level + 1)


def _context(command: Any, name: str) -> Any:
    return command.make_context(name, [], resilient_parsing=True)


def _parameters(command: Any) -> Iterator[str]:
    rows = [row for row in map(_row, command.params) if row]
    if rows:
        yield "| option | meaning | default |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _row(parameter: Any) -> str:
    if getattr(parameter, "hidden", False) or parameter.name in ("help", "install_completion", "show_completion"):
        return ""
    names = sorted((*parameter.opts, *parameter.secondary_opts), key=len, reverse=True)
    value = _value(parameter)
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.metavar or parameter.name.upper()}`"
    else:
        shown = ", ".join(f"`{name}`" for name in names) + (f" `{value}`" if value else "")
    default = parameter.default
    known = parameter.show_default and default is not None and not isinstance(default, bool | tuple | list)
    told = f"`{getattr(default, 'value', default)}`" if known else "required" if parameter.required else ""
    return f"| {shown} | {_plain(getattr(parameter, 'help', '') or '')} | {told} |".replace("  ", " ")


def _value(parameter: Any) -> str:
    if parameter.param_type_name == "argument" or getattr(parameter, "is_flag", False):
        return ""
    if isinstance(parameter.default, Enum):
        return ",".join(str(choice.value) for choice in type(parameter.default))
    return str(parameter.metavar or "")


def _plain(text: str) -> str:
    """Return a help text as Markdown: without markup, on one line per paragraph, harmless in a table."""
    text = re.sub(r"\[/?(dim|cyan|bold)\]", "", text)
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return re.sub(r"(?<![`\\])([<|])", r"\\\1", "\n\n".join(part for part in paragraphs if part))


def _examples(epilog: str) -> list[str]:
    return [re.sub(r"\[/?cyan\]", "", line).strip() for line in epilog.splitlines() if "[cyan]" in line]


if __name__ == "__main__":
    print(page())
