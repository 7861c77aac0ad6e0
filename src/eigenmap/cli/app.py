"""Command-line application and its error handling."""

from __future__ import annotations

import errno
import inspect
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eigenmap.cli.console import complain, print_result
from eigenmap.cli.interrupts import STOPPED
from eigenmap.cli.wording import in_command_words, options_of
from eigenmap.core.errors import EigenmapError

LEARN, USE, ABOUT = "Learn", "Use", "Look up"
"""Headings in the list of verbs."""

_ORDER = (
    "demo",
    "fit",
    "embed",
    "index",
    "search",
    "serve",
    "advise",
    "duplicates",
    "export",
    "evaluate",
    "info",
    "verify",
    "report",
    "figures",
    "recipes",
    "objectives",
    "reproduce",
)


_GO_ON = {
    "fit": "; the same command with --resume continues from the last checkpoint, if there is one",
    "embed": "; if --out is a folder, the same command continues after the last finished shard",
}


_UsageError: Any = typer.BadParameter.__bases__[0]
"""Usage errors; typer has its own copy of click, or uses the installed one."""


def _on_one_line(paragraph: str) -> str:
    """Join the lines of a paragraph, unless they form a table."""
    return paragraph if re.search(r"\S {2,}\S", paragraph) else " ".join(paragraph.split("\n"))


def _readable(command: Any, ctx: Any) -> Any:
    """Let a command's help wrap at the width of the terminal, and hide the type of flags, which take no value."""
    if command is not None and command.help:
        command.help = "\n\n".join(map(_on_one_line, inspect.cleandoc(command.help).split("\n\n")))
    asked_help = command.get_help_option(ctx) if command is not None else None
    for param in [] if command is None else [*command.params, *([] if asked_help is None else [asked_help])]:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
    return command


class Verbs(TyperGroup):
    """Verbs in the order of a first session; user errors end in one sentence instead of a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the verbs in order of use."""
        return sorted(super().list_commands(ctx), key=lambda verb: _ORDER.index(verb) if verb in _ORDER else -1)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb."""
        return _readable(super().get_command(ctx, cmd_name), ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        _readable(self, ctx)
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty words before anything else: as a path, one would mean the current folder."""
        for number, word in enumerate(args, start=1):
            if not word or re.fullmatch(r"--[\w-]+=", word):
                where = f"{word} has no value" if word else f"word {number} of the command is empty"
                complain(f"{where}; is a shell variable unset?")
                raise typer.Exit(2)
        with _in_one_sentence(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        with _in_one_sentence(ctx):
            return super().invoke(ctx)


def _says_no_memory(error: Exception) -> bool:
    """Tell whether an error, from Python or from torch on a CPU or GPU, means that memory ran out."""
    return isinstance(error, MemoryError) or bool(re.search(r"can't allocate memory|out of memory", str(error)))


_OF_THE_SYSTEM = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENFILE),
    *((errno.EDQUOT,) if hasattr(errno, "EDQUOT") else ()),  # Windows has no quotas
}
"""Problems of a disk or folder rather than of the program."""


def _about_file(error: OSError) -> str:
    """Describe a problem with a file; raise the error again if it may be a bug."""
    if error.errno == errno.ENAMETOOLONG:
        return f"a file name is too long: {str(error.filename)[:60]} ..."
    if error.errno not in _OF_THE_SYSTEM:
        raise error
    which = "a file" if error.filename is None else str(error.filename)
    return f"{which} cannot be read or written: {error.strerror}"


_NUMBERS = {"a valid integer": "a whole number", "a valid number": "a number"}
"""Plain words for the numbers that typer's messages expect."""


@contextmanager
def _in_one_sentence(ctx: Any) -> Iterator[None]:
    """Turn errors of input or usage into one sentence, in the words of the command line."""
    try:
        yield
    except KeyboardInterrupt:
        complain(f"stopped{_GO_ON.get(ctx.invoked_subcommand, '')}")
        raise typer.Exit(STOPPED) from None
    except EigenmapError as error:
        verb = ctx.command.commands.get(ctx.invoked_subcommand)
        complain(str(error) if verb is None else in_command_words(str(error), options_of(verb)))
        raise typer.Exit(2) from None
    except OSError as error:
        complain(_about_file(error))
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError) as error:
        if not _says_no_memory(error):
            raise
        complain(
            "not enough memory; use a smaller batch, fewer components or a smaller network "
            "(fit images: --set accumulate=4 processes the same batch in four parts)"
        )
        raise typer.Exit(2) from None
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise  # not an error: it shows the help
        sentence = " ".join(error.format_message().replace("Value error, ", "").split())
        sentence = re.sub(r"^Invalid value for '(.+?)'(?: / '-\w')?: Input should be", r"\1 must be", sentence)
        for expected, plain in _NUMBERS.items():
            sentence = re.sub(rf"{expected}, unable to parse.*", plain, sentence)
        more = "" if sentence.endswith("?") else f"; see {error.ctx.command_path if error.ctx else 'eigenmap'} --help"
        complain(sentence.rstrip(".") + more)
        raise typer.Exit(2) from None


class Kinds(TyperGroup):
    """A verb with several kinds: `eigenmap fit images`, `eigenmap evaluate retrieval`."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a kind."""
        return _readable(super().get_command(ctx, cmd_name), ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the kind; if a file or folder was given in its place, say which word is missing."""
        if args[0] not in self.commands and Path(args[0]).exists():
            *others, last = self.commands
            kinds = f"{', '.join(others)} or {last}" if others else last
            example = f"{ctx.command_path} {next(iter(self.commands))} {shlex.quote(args[0])}"
            raise EigenmapError(f"{ctx.command_path} needs one more word, {kinds}: {example}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""
From a folder of photos to a search:

[cyan]  eigenmap fit images PHOTOS/ --out runs/mine[/cyan]

[cyan]  eigenmap index runs/mine PHOTOS/ --out photos.index[/cyan]

[cyan]  eigenmap search photos.index some.jpg --top 5[/cyan]
""",
)


def _version(asked: bool) -> None:
    if asked:
        from eigenmap import __version__

        print_result(f"eigenmap {__version__}")
        raise typer.Exit


@app.callback()
def eigenmap(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Ordered embeddings: codes whose features are sorted by importance, so that you can cut them anywhere."""
