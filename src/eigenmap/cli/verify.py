"""`eigenmap verify`: compare every byte of a run, index or folder of codes with its checksum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from eigenmap.cli.app import ABOUT, app
from eigenmap.cli.console import print_result
from eigenmap.cli.options import QuietOption, argument
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count


@app.command(
    rich_help_panel=ABOUT,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap verify photos.index[/cyan]

[cyan]  eigenmap verify runs/mine[/cyan]
""",
)
def verify(
    place: Annotated[
        Path, argument("PLACE", "A folder written by `eigenmap fit`, `eigenmap index` or `eigenmap embed`.")
    ],
    quiet: QuietOption = False,
) -> None:
    """Check that no part of a run, an index or a folder of codes is damaged or missing.

    Everything is read and compared with its checksum. One line is printed per part, and the exit code is 0; or one
    sentence names the first damaged file, and the exit code is 2. Nothing is changed.
    """
    from eigenmap.description import KERNEL_FORMAT, format_of
    from eigenmap.embedding.node_store import NodeCodes
    from eigenmap.embedding.shards import Codebook

    require_path(place)
    if (place / "index.json").exists():
        kind, lines = "an index", _index(place)
    elif Codebook.is_at(place):
        kind, lines = "a folder of codes", _codes(place)
    elif NodeCodes.is_at(place):
        kind, lines = "a folder of codes of nodes", NodeCodes.open(place).verify()
    elif format_of(place) == KERNEL_FORMAT:
        kind, lines = "a saved NeuralEigenmap", _estimator(place)
    elif place.is_dir():
        kind, lines = "a run", _run(place)
    else:
        what = "is a file" if place.exists() else "does not exist"
        raise EigenmapError(f"{place} {what}; give the folder of a run, an index or codes")
    if not quiet:
        print_result(f"{place} is {kind} without damage:")
        for line in lines:
            print_result(f"  {line}")


def _index(place: Path) -> list[str]:
    from eigenmap.search import CodeIndex

    with CodeIndex.open(place) as index:
        return index.verify()


def _codes(place: Path) -> list[str]:
    from eigenmap.embedding.shards import MANIFEST, Codebook

    codes = Codebook.open(place)
    how = "checksums match" if codes.verify() else "all readable; an earlier version stored no checksums"
    return [f"{MANIFEST}: intact", f"shards: {codes.plan.shards:,} with {count(len(codes), 'code')}, {how}"]


def _estimator(place: Path) -> list[str]:
    from eigenmap.estimators.saved import verify_estimator

    return verify_estimator(place)


def _run(place: Path) -> list[str]:
    """Check the model, if training has finished, and the checkpoint and metrics, if they exist."""
    from eigenmap.model import CHECKPOINT, DESCRIPTION, Eigenmap
    from eigenmap.training import checkpoint, metrics
    from eigenmap.training.run import METRICS_FILE

    lines = []
    saved, kept = (place / CHECKPOINT).is_file(), (place / METRICS_FILE).is_file()
    if (place / DESCRIPTION).exists() or not saved:
        lines += Eigenmap.verify(place)
    if saved:
        lines.append(f"{CHECKPOINT}: after {count(checkpoint.load(place / CHECKPOINT).step, 'step')}")
    if kept:
        try:
            lines.append(f"{METRICS_FILE}: {len(metrics.read(place / METRICS_FILE)):,} lines")
        except (OSError, UnicodeDecodeError) as error:
            raise EigenmapError(
                f"{place / METRICS_FILE} is damaged or cannot be read: {error}; move it away"
            ) from error
    return lines
