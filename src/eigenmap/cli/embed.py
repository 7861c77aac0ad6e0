"""`eigenmap embed`: images, or features of nodes, to a file of codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note
from eigenmap.cli.options import (
    OUTPUT,
    SOURCES,
    BatchOption,
    Device,
    DeviceOption,
    DimOption,
    ForceOption,
    ModelArgument,
    QuietOption,
    StrictOption,
    check_device,
)
from eigenmap.cli.outputs import as_json, check_file, written
from eigenmap.cli.work import encode_images, encode_nodes, read_images
from eigenmap.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.model import Codes


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Example:

[cyan]  eigenmap embed runs/mine PHOTOS/ --out codes.npy --dim 64[/cyan]

[cyan]  eigenmap embed runs/mine PHOTOS/ --out codes.npz[/cyan]

[cyan]  eigenmap embed runs/graph new_features.npy --out codes.npy[/cyan]
""",
)
def embed(
    run: ModelArgument,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help=f"The images. {SOURCES} For a model of nodes: their features (.npy, a row a node) or a graph file.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="codes.npy (names of the images go to codes.ids.json beside it), or codes.npz with both inside.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ],
    dim: DimOption = None,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn images, or the features of nodes, into ordered codes: one row of norm 1 each.

    A longer code holds the shorter ones: cut rows anywhere and divide them by their norm.
    """
    from eigenmap.model import Eigenmap, NodeInput

    names = _names_file(out)
    check_file(out, force)
    place = check_device(device)
    model = Eigenmap.load(run)
    dim = model.check_dim(dim)
    if isinstance(model.input, NodeInput):
        codes = encode_nodes(model, source, dim, place, batch_size, quiet)
        _write_codes(out, codes)
        if not quiet:
            note(f"{len(codes):,} codes of {dim} features, in the order of the nodes: {out}")
        return
    if names is not None:
        check_file(names, force)
    images = read_images(model, source, strict=strict, quiet=quiet)
    codes = encode_images(model, images, dim, place, batch_size, quiet)
    _write(out, names, codes, images.ids)
    where = f"{out} (names of the images: {names})" if names else f"{out} (arrays codes and ids)"
    if not quiet:
        note(f"{len(codes):,} codes of {dim} features: {where}")


def _names_file(out: Path) -> Path | None:
    """Where the names of the images go: beside an .npy file, inside an .npz file (None)."""
    if out.suffix == ".npz":
        return None
    if out.suffix != ".npy":
        raise EigenmapError(f"{out} must end in .npy or .npz, for example codes.npy.")
    return out.with_suffix(".ids.json")


def _write_codes(out: Path, codes: Codes) -> None:
    import numpy as np

    with written(out) as file:
        if out.suffix == ".npz":
            np.savez(file, codes=codes)
        else:
            np.save(file, codes)


def _write(out: Path, names: Path | None, codes: Codes, ids: list[str]) -> None:
    import numpy as np

    if names is None:
        with written(out) as file:
            np.savez(file, codes=codes, ids=np.array(ids))
    else:
        with written(names) as listing, written(out) as file:
            np.save(file, codes)
            listing.write(as_json(ids))
