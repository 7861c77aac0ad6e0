"""`eigenmap evaluate nodes`: classification of nodes from codes of every length."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.console import log_function, progress_bar
from eigenmap.cli.evaluate.probing import (
    CodesOf,
    CodesOfOption,
    LabelSharesOption,
    check_uncut,
    shares_of,
    show_by_share,
)
from eigenmap.cli.evaluate.retrieval import NumberLists, circumstances, evaluate
from eigenmap.cli.options import (
    HOW,
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    argument,
    check_device,
    option,
)
from eigenmap.cli.outputs import check_files, write_json_output
from eigenmap.core.errors import EigenmapError
from eigenmap.core.logging import LogFunction

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from eigenmap.data.graphs.graph import Nodes
    from eigenmap.evaluation.node_codes import StreamedCodes
    from eigenmap.evaluation.nodes import NodeRow, NodeSplit
    from eigenmap.model import Codes, Eigenmap
    from eigenmap.networks import SparseRows


HELD_BYTES = 4e9
"""Maximum memory of the codes of all nodes; larger ones are computed as needed."""
ROWS = 4096
"""Nodes per batch."""


class ProbeName(str, Enum):
    """Kinds of probes; see `eigenmap.evaluation.nodes`."""

    logistic = "logistic"
    ridge = "ridge"
    paper = "paper"
    few = "few"


class SplitKind(str, Enum):
    """Source of the split."""

    auto = "auto"
    file = "file"
    random = "random"


@evaluate.command(
    cls=NumberLists,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap evaluate nodes runs/cora cora.npz --labels 1 10 100 --json r.json[/cyan]

[cyan]  eigenmap evaluate nodes runs/cora cora.npz --probe paper --dims 8 32 128 --split random[/cyan]
""",
)
def nodes(
    run: ModelArgument,
    graph: Annotated[Path, argument("FILE.npz", "Features x and class numbers y of nodes; no edges are needed.")],
    labels: LabelSharesOption = None,
    dims: Annotated[
        list[int] | None, option("--dims N...", "Code lengths to measure [dim](default: 8 16 32 ... all)[/dim].", HOW)
    ] = None,
    probe: Annotated[
        ProbeName,
        option(
            "--probe",
            "logistic: BGRL's protocol; ridge: closed form; paper: SGD with smoothed labels; few: for few labels, "
            "also prototypes and label spreading, chosen on validation nodes.",
            HOW,
            shown=True,
        ),
    ] = ProbeName.logistic,
    of: CodesOfOption = CodesOf.codes,
    neighbours: Annotated[
        bool,
        option("--neighbours", "Average codes over neighbours, in the way chosen by the fit.", HOW, shown=True),
    ] = False,
    split: Annotated[
        SplitKind,
        option(
            "--split",
            "The split in the file, or random splits of 10 / 10 / 80 %; auto uses the file's if it has one.",
            HOW,
            shown=True,
        ),
    ] = SplitKind.auto,
    runs: Annotated[
        int,
        option(
            "--runs N",
            "Random splits, or draws of labels from the given split.",
            HOW,
            min=1,
            shown=True,
        ),
    ] = 10,
    device: DeviceOption = Device.auto,
    json: JsonOption = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Classify test nodes by their codes, using a share of the training labels.

    [bold]accuracy[/bold]    share of the test nodes classified correctly, mean over the runs
    [bold]spread[/bold]      sample standard deviation of the accuracy over the runs
    [bold]validation[/bold]  accuracy on the validation nodes, which the probe uses to choose its settings
    """
    import torch

    from eigenmap.evaluation.nodes import evaluate_nodes
    from eigenmap.model import Eigenmap, NodeInput

    check_files(force, json, reads=[run, graph])
    shares = shares_of(labels)
    check_uncut(of, dims)
    if neighbours and of is CodesOf.encoder:
        raise EigenmapError("--neighbours is for codes, but --of encoder measures the encoder output; choose one.")
    place = check_device(device)
    model = Eigenmap.load(run)
    if not isinstance(model.input, NodeInput):
        raise EigenmapError(
            f"{run} is a model of {model.kind}, not of nodes; see `eigenmap evaluate --help` for other measurements."
        )
    data, known = _labelled(graph)
    splits = _splits(graph, data, split, runs)
    if split is SplitKind.auto and not quiet:
        log_function(quiet)(
            f"Using {'the split in the file' if data.splits else 'random splits of 10 / 10 / 80 %'}, {runs} runs."
        )
    _report_classes(known, splits, log_function(quiet))
    rows = model.input.read(data.x)
    model.network.to(place)
    lengths = [model.check_dim(dim) for dim in dims] if dims else None
    codes: Codes | Tensor | StreamedCodes
    if neighbours:
        edges, missing = _edges(graph)
        codes = model.encode(rows, edges=edges, missing=missing, normalize=False, batch_size=ROWS)
    else:
        codes = _codes(model, rows, of, torch.device(place))
    if of is CodesOf.encoder:
        lengths = [codes.shape[1]]
    found: list[NodeRow] = []
    with progress_bar("probing", quiet) as tick:
        for place_of_share, share in enumerate(shares, start=1):
            found += evaluate_nodes(
                codes, known, splits, shares=(share,), dims=lengths, probe=probe.value, device=place
            )
            if tick is not None:
                tick(place_of_share, len(shares))
    if json is not None:
        protocol = {
            "graph": str(graph),
            "nodes": len(data),
            "classes": len(torch.unique(known[known >= 0])),
            "probe": probe.value,
            "of": of.value,
            "neighbours": model.neighbours.propagation.in_words if neighbours else "not given",
            "split": "file" if _own_split(split, data) else "random 10 / 10 / 80 %",
            "sizes": {name: len(part) for name, part in splits[0]._asdict().items()},
            "runs": runs,
            "chosen": "on validation nodes",
        }
        write_json_output(json, {**circumstances(run, model, place, "nodes"), "protocol": protocol, "rows": found})
    show_by_share(found, f"{len(splits[0].test):,} test nodes", ("accuracy", "spread", "validation"), _cells)


def _codes(model: Eigenmap, rows: Tensor | SparseRows, of: CodesOf, device: torch.device) -> Tensor | StreamedCodes:
    """Return the codes of all nodes, computed as needed if they exceed `HELD_BYTES`."""
    import torch

    from eigenmap.evaluation.node_codes import StreamedCodes
    from eigenmap.networks.network import encoder_width

    def encode(nodes: Tensor) -> Tensor:
        some = rows[nodes.to(rows.device)]
        if of is CodesOf.encoder:
            return torch.cat(list(model.raw(some, batch_size=ROWS, source="encoder")))
        return torch.from_numpy(model.encode(some, normalize=False, batch_size=ROWS))

    width = encoder_width(model.network.encoder) if of is CodesOf.encoder else model.n_components
    if len(rows) * width * 4 > HELD_BYTES:
        return StreamedCodes(encode, (len(rows), width), device)
    return encode(torch.arange(len(rows)))


def _labelled(path: Path) -> tuple[Nodes, Tensor]:
    """Read the nodes in a file and their labels."""
    from eigenmap.data.graphs.files import read_nodes

    data = read_nodes(path)
    if data.y is None or not bool((data.y >= 0).any()):
        raise EigenmapError(f"{path} has no labels; add an array y with one class number per node.")
    return data, data.y


def _edges(path: Path) -> tuple[tuple[Tensor, Tensor | None], Tensor | None]:
    """Read the edges in a file, their weights, and the nodes whose features are unknown."""
    from eigenmap.data.graphs.files import edges_of, read_missing
    from eigenmap.data.graphs.graph import load_graph

    return edges_of(load_graph(path)), read_missing(path)


def _own_split(kind: SplitKind, data: Nodes) -> bool:
    return kind is SplitKind.file or (kind is SplitKind.auto and bool(data.splits))


def _splits(path: Path, data: Nodes, kind: SplitKind, runs: int) -> list[NodeSplit]:
    from eigenmap.evaluation.nodes import NodeSplit, random_split

    assert data.y is not None
    if not _own_split(kind, data):
        return [random_split(data.y, seed) for seed in range(runs)]
    parts = [data.splits.get(name) for name in ("train", "validation", "test")]
    if any(part is None for part in parts):
        raise EigenmapError(f"{path} lacks one of train_idx, val_idx and test_idx; add it, or use --split random.")
    # Nodes without a label are useless in any part.
    return [NodeSplit(*(part[data.y[part] >= 0] for part in parts if part is not None))] * runs


def _report_classes(known: Tensor, splits: Sequence[NodeSplit], say: LogFunction) -> None:
    """Report classes without a training node."""
    found: set[int] = set()
    for split in splits:
        found |= set(known[split.test].tolist()) - set(known[split.train].tolist())
    if found:
        names = ", ".join(map(str, sorted(found)))
        say(f"Classes without a training node in at least one run, whose test nodes then count as errors: {names}.")


def _cells(row: NodeRow) -> list[str]:
    spread = f"{row['spread']:.4f}" if row["runs"] > 1 else "one run"
    return [f"{row['accuracy']:.4f}", spread, f"{row['validation']:.4f}"]
