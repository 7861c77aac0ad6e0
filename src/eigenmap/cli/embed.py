"""`eigenmap embed`: any number of images, nodes or vectors to codes on disk."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.nodes import NodeOptions, embed_nodes
from eigenmap.cli.options import (
    HOW,
    OUTPUT,
    SOURCES_HELP,
    BatchOption,
    Device,
    DeviceOption,
    DimOption,
    ForceOption,
    ModelArgument,
    QuietOption,
    StrictOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import refuse_inputs
from eigenmap.cli.vector_codes import Side, SideOption, are_vectors, embed_vectors, side_of
from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count


class Files(str, Enum):
    """File format of shards."""

    parquet = "parquet"
    npy = "npy"


class Engine(str, Enum):
    """Engine that computes the codes."""

    local = "local"
    ray = "ray"


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap embed runs/mine PHOTOS/ --out codes.npy --dim 64[/cyan]

[cyan]  eigenmap embed runs/mine PHOTOS/ --out codes/ --files parquet[/cyan]

[cyan]  eigenmap embed runs/graph new_features.npy --out codes.npy[/cyan]

[cyan]  eigenmap embed runs/graph graph.npz --neighbours --out nodes/[/cyan]

[cyan]  eigenmap embed runs/graph new_nodes.npz --stored nodes/ --out codes.npy[/cyan]

[cyan]  eigenmap embed runs/graph new_nodes.npz --append --out nodes/[/cyan]

[cyan]  eigenmap embed runs/text vectors.npy --out codes.npy --dim 32[/cyan]

[cyan]  torchrun --nproc-per-node 4 --no-python eigenmap embed runs/mine PHOTOS/ --out codes/[/cyan]
""",
)
def embed(
    run: ModelArgument,
    source: Annotated[
        Path,
        argument(
            "SOURCE",
            f"The images. {SOURCES_HELP} For a model of nodes, a file of their features; for a model of vectors, a "
            "file of vectors.",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "--out -o PATH",
            "codes.npy (with the names of the images in codes.ids.json), codes.npz or codes.parquet (with the names "
            "inside), or a folder for shards.",
            OUTPUT,
        ),
    ],
    dim: DimOption = None,
    files: Annotated[
        Files | None, option("--files", "Format of the shards in a folder [dim](default: parquet)[/dim].", OUTPUT)
    ] = None,
    shard_size: Annotated[int, option("--shard-size N", "Images per shard.", OUTPUT, min=1, shown=True)] = 8192,
    engine: Annotated[
        Engine,
        option(
            "--engine",
            "Compute on this machine, or on the Ray cluster at RAY_ADDRESS (a local one if that is not set).",
            HOW,
            shown=True,
        ),
    ] = Engine.local,
    actors: Annotated[
        int | None, option("--actors N", "Actors on Ray [dim](default: one per GPU or processor)[/dim].", HOW, min=1)
    ] = None,
    neighbours: Annotated[
        bool,
        option(
            "--neighbours",
            "For a graph with edges: average codes over neighbours in the way chosen by the fit. If --out is a "
            "folder, --stored can use it later.",
            HOW,
            shown=True,
        ),
    ] = False,
    stored: Annotated[
        Path | None,
        option(
            "--stored FOLDER",
            "Stored codes of a graph; SOURCE has new nodes, numbered after the stored ones.",
            HOW,
        ),
    ] = None,
    append: Annotated[
        bool,
        option(
            "--append",
            "Add the new nodes of SOURCE to the stored codes in --out, and update the codes of their neighbours.",
            OUTPUT,
            shown=True,
        ),
    ] = False,
    side: SideOption = None,
    batch_size: BatchOption = 256,
    device: DeviceOption = Device.auto,
    strict: StrictOption = False,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Turn images, node features or vectors into ordered codes: one row of norm 1 each.

    A longer code contains the shorter ones: cut rows anywhere and divide them by their norm. Memory does not grow with
    the number of images or nodes. After an interruption the same command continues where it stopped (for nodes it
    starts again). Only one process at a time may write to an output.
    """
    from eigenmap.embedding import embed_images
    from eigenmap.embedding.files import SUFFIXES, names_file
    from eigenmap.fitting.images import log_left_out
    from eigenmap.model import Eigenmap

    require_path(out)
    names = names_file(out)
    if actors is not None and engine is not Engine.ray:
        raise EigenmapError("--actors needs --engine ray; add it, or leave --actors out.")
    if files is not None and out.suffix in SUFFIXES:
        raise EigenmapError(f"--files is for folders, but {out} is a single file; leave --files out, or give a folder.")
    place = check_device(device)
    kind = Eigenmap.kind_at(run, "right" if side is Side.right else "left")
    if kind != "images" and engine is Engine.ray:
        raise EigenmapError(f"--engine ray is for images, but {run} takes {kind}; leave it out.")
    used = neighbours or append or stored is not None
    if kind != "nodes" and used:
        raise EigenmapError(f"--neighbours, --stored and --append are for models of nodes, but {run} takes {kind}.")
    if kind != "vectors" and side is not None and Eigenmap.kind_at(run, "right") == kind:
        raise EigenmapError(f"--side is for models with two spaces, but {run} takes {kind} only; leave it out.")
    if kind == "nodes":
        embed_nodes(NodeOptions(run, source, out, dim, place, batch_size, force, quiet, used, stored, append))
        return
    if kind == "vectors":
        embed_vectors(run, source, out, dim, place, side, force, quiet)
        return
    if side is None and Eigenmap.kind_at(run, "right") == "vectors" and are_vectors(source):
        side_of(Eigenmap.load(run), side)  # images need no side, but vectors do
    refuse_inputs(out, [source])
    with progress_bar("encoding", quiet) as tick:
        made = embed_images(
            run,
            source,
            out,
            dim,
            files=(files or Files.parquet).value,
            shard_size=shard_size,
            batch_size=batch_size,
            device=place,
            strict=strict,
            engine=engine.value,
            actors=actors,
            overwrite=force,
            progress=tick,
        )
    if quiet or made is None:
        return
    log_left_out(made.skipped, made.images, note)
    if made.kept:
        note(f"Kept {count(made.kept, 'shard')} of an interrupted run.")
    inside = {".npy": f"names of the images: {names}", ".npz": "arrays codes and ids", "": f"shards of {shard_size:,}"}
    codes = count(made.images, "code")
    note(f"{codes} of {made.dim} features: {out} ({inside.get(out.suffix, 'columns id and code')})")
