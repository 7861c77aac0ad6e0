"""`eigenmap embed` for nodes: codes from features alone, from neighbours, or of new nodes of a stored graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.encoding import encode_nodes
from eigenmap.cli.outputs import check_files, write_codes
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.model import Codes, Eigenmap

FILES = (".npy", ".npz")
FULL_LENGTH = "A folder stores node codes at full length; leave --dim out and cut the codes later."


@dataclass(frozen=True)
class NodeOptions:
    """Options of the command line."""

    run: Path
    source: Path
    out: Path
    dim: int | None
    device: str
    batch_size: int
    force: bool
    quiet: bool
    neighbours: bool = False
    stored: Path | None = None
    append: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether codes are stored in a folder, to which new nodes can be added."""
        return self.out.suffix == "" and self.neighbours and self.stored is None


def embed_nodes(asked: NodeOptions) -> None:
    """Write the codes of nodes in the order of the nodes."""
    from eigenmap.embedding.files import names_file
    from eigenmap.model import Eigenmap

    if asked.append:
        _append(Eigenmap.load(asked.run), asked)
        return
    if not asked.is_folder:
        if asked.out.suffix not in FILES:
            kinds = ", or be a folder" if asked.neighbours and asked.stored is None else ""
            raise EigenmapError(
                f"{asked.out} must end in .npy or .npz for codes of nodes, for example codes.npy{kinds}."
            )
        check_files(asked.force, asked.out, names_file(asked.out), reads=[asked.run, asked.source, asked.stored])
    elif asked.dim is not None:
        raise EigenmapError(FULL_LENGTH)
    model = Eigenmap.load(asked.run)
    if asked.stored is not None:
        _new(model, asked, asked.stored)
    elif asked.is_folder:
        _folder(model, asked)
    elif asked.neighbours:
        _graph(model, asked)
    else:
        _features(model, asked)


def _features(model: Eigenmap, asked: NodeOptions) -> None:
    """Write codes from features alone, batch by batch."""
    from eigenmap.data.graphs.files import read_features

    dim, rows = model.check_dim(asked.dim), model.input.read(read_features(asked.source))
    codes = encode_nodes(model, rows, dim, asked.device, asked.batch_size, asked.quiet)
    _write(asked, (len(rows), dim), codes)


def _folder(model: Eigenmap, asked: NodeOptions) -> None:
    from eigenmap.data.graphs.files import read_missing
    from eigenmap.data.graphs.graph import load_graph
    from eigenmap.embedding import nodes

    if asked.out.exists() and not asked.force and any(asked.out.iterdir() if asked.out.is_dir() else [1]):
        raise EigenmapError(f"{asked.out} exists; choose another name, or use --force to replace it.")
    graph = load_graph(asked.source)
    with progress_bar("encoding", asked.quiet) as tick:
        nodes.embed_nodes(
            model,
            graph.x,
            graph.walk(),
            asked.out,
            missing=read_missing(asked.source),
            batch_size=asked.batch_size,
            device=asked.device,
            overwrite=asked.force,
            progress=tick,
        )
    if not asked.quiet:
        note(f"{count(len(graph), 'code')} of {count(model.n_components, 'feature')}: {asked.out}")
        _say_way(model)


def _graph(model: Eigenmap, asked: NodeOptions) -> None:
    """Write codes averaged over neighbours to one file; a hidden folder beside it holds intermediate results."""
    from eigenmap.core.folders import scratch_folder
    from eigenmap.data.graphs.files import read_missing
    from eigenmap.data.graphs.graph import load_graph
    from eigenmap.embedding import nodes
    from eigenmap.relations.neighbour_codes import Cut
    from eigenmap.relations.propagation import Smoothing

    dim, graph = model.check_dim(asked.dim), load_graph(asked.source)
    walk = graph.walk()
    given = nodes.GraphRows.of(model, graph.x, walk, read_missing(asked.source))
    with scratch_folder(asked.out) as scratch:
        with progress_bar("encoding", asked.quiet) as tick:
            nodes.make_states(
                given,
                Smoothing.of(walk),
                scratch,
                batch_size=asked.batch_size,
                device=asked.device,
                progress=tick,
            )
        codes = (code for _, code in nodes.ordered_rows(given, scratch, Cut(dim)))
        _write(asked, (len(given), dim), codes)
    if not asked.quiet:
        _say_way(model)


def _new(model: Eigenmap, asked: NodeOptions, stored: Path) -> None:
    """Write codes of new nodes that have edges into a stored graph."""
    from eigenmap.data.graphs.files import read_new_nodes
    from eigenmap.embedding.node_store import NodeCodes

    dim, opened = model.check_dim(asked.dim), NodeCodes.open(stored)
    new = read_new_nodes(asked.source, len(opened), model.input.n_features)  # type: ignore[union-attr]
    codes = model.encode(
        new.x,
        dim,
        edges=new.edges,
        missing=new.missing,
        stored=opened,
        device=asked.device,
        batch_size=asked.batch_size,
    )
    _write(asked, codes.shape, [codes])


def _append(model: Eigenmap, asked: NodeOptions) -> None:
    """Add new nodes to a folder of stored codes."""
    from eigenmap.data.graphs.files import read_new_nodes
    from eigenmap.embedding.append import append_nodes
    from eigenmap.embedding.node_store import NodeCodes

    if asked.dim is not None:
        raise EigenmapError(FULL_LENGTH)
    if asked.stored is not None:
        raise EigenmapError("--append adds the new nodes to --out; leave --stored out.")
    new = read_new_nodes(asked.source, len(NodeCodes.open(asked.out)), model.input.n_features)  # type: ignore[union-attr]
    made = append_nodes(
        model,
        asked.out,
        new.x,
        new.edges,
        missing=new.missing,
        batch_size=asked.batch_size,
        device=asked.device,
    )
    if not asked.quiet:
        added = count(made.new, "new code")
        note(f"{added}, {made.refreshed:,} of neighbours updated, {made.nodes:,} in total: {asked.out}")


def _write(asked: NodeOptions, shape: tuple[int, int], codes: Iterable[Codes]) -> None:
    write_codes(asked.out, shape, codes)
    if not asked.quiet:
        note(f"{count(shape[0], 'code')} of {count(shape[1], 'feature')}, in the order of the nodes: {asked.out}")


def _say_way(model: Eigenmap) -> None:
    way = model.neighbours.propagation
    if way.way == "none":
        note("Codes are not averaged over neighbours, except for nodes without features: the fit found no gain.")
    else:
        note(f"Codes are averaged over neighbours in the way chosen by the fit: {way.in_words}.")
