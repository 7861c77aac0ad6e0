"""The application that the verbs belong to, and what happens when one of them fails."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eigenmap.cli.console import complain, print_result
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
    "fit": "; the same command with --resume goes on from the last checkpoint",
    "embed": "; where --out is a folder, the same command goes on after the last finished shard",
}


_UsageError: Any = typer.BadParameter.__bases__[0]
"""A command that cannot be read; typer has its own copy of click, or uses the installed one."""


class Verbs(TyperGroup):
    """The verbs in the order of a first session; the user's mistakes end in one sentence, not in a traceback."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Verbs in the order in which one needs them."""
        return sorted(super().list_commands(ctx), key=lambda verb: _ORDER.index(verb) if verb in _ORDER else -1)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse empty words before anything else: as a path, one would mean the folder one happens to be in."""
        for number, word in enumerate(args, start=1):
            if not word or re.fullmatch(r"--[\w-]+=", word):
                where = f"{word} has no value" if word else f"word {number} of the command is empty"
                complain(f"{where}; is a variable of the shell not set?")
                raise typer.Exit(2)
        with _in_one_sentence():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            with _in_one_sentence():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            complain(f"stopped{_GO_ON.get(ctx.invoked_subcommand, '')}")
            raise typer.Exit(130) from None


def _says_no_memory(error: Exception) -> bool:
    """Whether an error of Python, or of torch on a CPU or a GPU, is about memory."""
    return isinstance(error, MemoryError) or bool(re.search(r"can't allocate memory|out of memory", str(error)))


_OF_THE_SYSTEM = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENFILE),
    *((errno.EDQUOT,) if hasattr(errno, "EDQUOT") else ()),  # there are no quotas on Windows
}
"""What is wrong with a disk or a folder, not with us."""


def _about_file(error: OSError) -> str:
    """What the system says of a file; the error itself is raised again if it may be a mistake of ours."""
    if error.errno == errno.ENAMETOOLONG:
        return f"a name is too long for a file: {str(error.filename)[:60]} ..."
    if error.errno not in _OF_THE_SYSTEM:
        raise error
    which = "a file" if error.filename is None else str(error.filename)
    return f"{which} cannot be read or written: {error.strerror}"


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """What is wrong with the input or with the command itself."""
    try:
        yield
    except EigenmapError as error:
        complain(str(error))
        raise typer.Exit(2) from None
    except OSError as error:
        complain(_about_file(error))
        raise typer.Exit(2) from None
    except (MemoryError, RuntimeError) as error:
        if not _says_no_memory(error):
            raise
        complain(
            "there is not enough memory for this; a smaller batch, fewer components or a smaller network need less "
            "(fit images: --set accumulate=4 takes the same batch in four parts)"
        )
        raise typer.Exit(2) from None
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            raise  # not wrong: it shows the help
        sentence = " ".join(error.format_message().replace("Value error, ", "").split())
        more = "" if sentence.endswith("?") else f"; see {error.ctx.command_path if error.ctx else 'eigenmap'} --help"
        complain(sentence.rstrip(".") + more)
        raise typer.Exit(2) from None


class Kinds(TyperGroup):
    """A verb that wants to know of what: `eigenmap fit images`, `eigenmap evaluate retrieval`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the kind; where a file or folder was given in its place, say which word is missing."""
        if args[0] not in self.commands and Path(args[0]).exists():
            kinds = " or ".join(self.commands)
            example = f"{ctx.command_path} {next(iter(self.commands))} {args[0]}"
            raise EigenmapError(f"{ctx.command_path} needs one more word, {kinds}: {example}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
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
    """Ordered embeddings: codes whose features come sorted by importance, so that you can cut them anywhere."""
