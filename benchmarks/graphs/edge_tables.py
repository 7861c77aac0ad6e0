"""The part of docs/graph-benchmarks.md on codes with edges: accuracy, goals, graphs of our own making, cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.common.pages import NONE, NOT_RUN, emphasise, figure, made_by, table
from benchmarks.graphs import edges, made
from benchmarks.graphs.edge_cost import WAYS
from benchmarks.graphs.jobs import OFFICIAL, SHARES, Job, Setting
from benchmarks.graphs.plan import SEEDS, Finished
from benchmarks.graphs.tasks import HETEROPHILOUS
from eigenmap.core.words import count
from eigenmap.relations.propagation import Propagation

Result = dict[str, Any]
COSTS = (*edges.ALL_SETS, "products")
"""Graphs whose cost with edges is measured."""
ALONE_COST, STORED_COST = "ours, features alone", "ours with edges, from stored"
"""How the methods of `edge_cost` begin."""
ON_CPU_ALONE = "-cpu"
"""End of the name of a result of `edge_cost` without a GPU."""
EARLIER = "earlier default"
EARLIER_SIZE = (
    "Rows of an earlier default have to be measured again: it did not choose the size of the network, which had one "
    "block, and width 1,024 for dense features of 10,000 nodes or more, else 256."
)
EARLIER_ROWS = (
    "Rows on a CPU were timed with 8,192 nodes in a pass of the network. Today 512 pass at a time, which takes less "
    "time where the network is wide."
)
COMPILED = "Where layers were also compiled, the columns with edges were timed with these alone, which are slower."


class Row(NamedTuple):
    """A row: what it is called, whose results it shows, from which list in them, and which classifiers count."""

    label: str
    method: str
    heads: tuple[str, ...]
    runs: str = "runs"


PLAIN = ("logistic", "mlp")
"""Of these two, the one that is better on validation nodes counts."""
WITH_RAW = ("logistic", "joined", "mlp")
"""Likewise for ours with edges; the MLP may join raw and averaged features to the code too."""
OURS = Row("**ours with edges**", "ours", WITH_RAW)
ALONE = Row("**ours, features alone**, logistic probe", "ours", ("logistic",), "alone")
GCN = Row("GCN, full batch", "glnn", ("gcn",), "teacher")
APPNP = Row("APPNP", "appnp", ("appnp",))
NODE2VEC = Row("node2vec + MLP", "node2vec", ("mlp",))
HOPS = Row("**ours, trained on averaged features**", "ours-hops", WITH_RAW)
RIVALS = (
    GCN,
    Row("SIGN", "sign", ("mlp",)),
    APPNP,
    Row("GLNN (no edges at inference)", "glnn", ("glnn",)),
    Row("BGRL", "bgrl", PLAIN),
    NODE2VEC,
    Row("Laplacian eigenmap + MLP", "laplacian", ("mlp",)),
    Row("MLP on features", "mlp", ("mlp",)),
)
ROWS = (
    OURS,
    Row("**ours with edges**, logistic probe", "ours", ("logistic",)),
    Row("**ours with edges**, probe for few labels", "ours", ("few",)),
    ALONE,
    HOPS,
    *RIVALS,
)


def results(finished: Finished, data: str, method: str, setting: Setting) -> list[Result]:
    """All seeds of a method; where this study has none, those of the other one."""
    names = [edges.EdgeJob(data, method, setting, seed).name for seed in SEEDS]
    found = [finished.results[name] for name in names if name in finished.results]
    others = [Job(data, method, setting, seed).name for seed in SEEDS]
    return found or [finished.results[name] for name in others if name in finished.results]


def values(
    finished: Finished, data: str, row: Row, setting: Setting, share: float, seeds: Collection[int] = SEEDS
) -> list[float]:
    """Accuracies in percent of these seeds and all splits, by the classifier that is best on validation nodes."""
    by_head: dict[str, tuple[list[float], list[float]]] = {}
    for result in results(finished, data, row.method, setting):
        if result["job"]["seed"] not in seeds:
            continue
        some = [run for run in result.get(row.runs, []) if run["share"] == share and run[setting] is not None]
        for head in row.heads:
            mine = [run for run in some if run["head"] == head]
            if share == 1.0 and data in (*OFFICIAL, *HETEROPHILOUS, *edges.FEW_LABELS):
                mine = mine[:1]  # one split: its repetition says nothing new
            judged, tested = by_head.setdefault(head, ([], []))
            judged += [run["validation"] for run in mine]
            tested += [100 * run[setting] for run in mine]
    most = max((len(judged) for judged, _ in by_head.values()), default=0)
    # A classifier that some results do not have is not compared with those that all have.
    known = {head: each for head, each in by_head.items() if len(each[0]) == most > 0}
    return known[max(known, key=lambda head: mean(known[head][0]))][1] if known else []


def with_edges(finished: Finished) -> Iterator[str]:
    """Tables of accuracy, one for each setting and share."""
    if not any(name.startswith("edges-") for name in finished.results):
        return
    yield "## With edges at inference"
    yield (
        "Ours is the library's default fit, which chooses whether and how its codes use neighbours, without labels. A "
        "GCN, SIGN, APPNP and BGRL get the same edges. Accuracy in percent, mean ± sample standard deviation over "
        "seeds and splits."
    )
    said = [
        "*Unseen*: nodes that were not there in training, with their edges at inference.",
        "A row of several classifiers shows the one that is best on validation nodes. For ours these are the logistic "
        "probe of the code, the same joined to features averaged over two steps, and an MLP. Its input is the code, "
        "alone, with features, or with these and averaged ones.",
        "The rule that chooses the use of neighbours was settled on some of these graphs. The next section tests it on "
        "others.",
        "Actor and Squirrel have one published split. Rows of rivals come from runs of different commits.",
        _devices(finished),
        _repeat(finished),
    ]
    yield "\n".join(f"- {line}" for line in said if line)
    names = edges.ALL_SETS
    settings: tuple[Setting, Setting] = ("unseen", "seen")
    shown: list[Result] = []
    for setting in settings:
        for share in reversed(SHARES):
            rows = []
            for row in ROWS:
                cells = []
                for data in names:
                    found = values(finished, data, row, setting, share)
                    impossible = setting == "unseen" and row.method in edges.TRANSDUCTIVE
                    cells.append(figure(found, 1) if found else NONE if impossible else NOT_RUN)
                rows.append([row.label, *cells])
            yield f"### {setting.capitalize()} nodes, {100 * share:g} % of the training labels"
            yield table(["method", *names.values()], emphasise(rows))
        shown += [result for row in ROWS for data in names for result in results(finished, data, row.method, setting)]
    if shown:
        yield made_by(list({str(result["job"]): result for result in shown}.values()))
    yield _gains(finished)


def _devices(finished: Finished) -> str:
    """Say on what ours was trained, graph by graph."""
    said = []
    settings: tuple[Setting, Setting] = ("unseen", "seen")
    for setting in settings:
        found: dict[str, list[str]] = {}
        for data, name in edges.ALL_SETS.items():
            made = results(finished, data, "ours", setting)
            kinds = sorted({"a CPU" if str(result["device"]).startswith("cpu") else "a GPU" for result in made})
            if kinds:
                found.setdefault(" and ".join(kinds), []).append(name)
        each = [f"on {kind} for {', '.join(names)}" for kind, names in sorted(found.items())]
        said += [f"{setting} nodes {'; '.join(each)}"] if each else []
    return f"Ours was trained: {' / '.join(said)}." if said else ""


def _repeat(finished: Finished) -> str:
    """Name the graphs where the fit might choose another size or another use of neighbours today."""
    said = []
    settings: tuple[Setting, Setting] = ("unseen", "seen")
    for setting in settings:
        names = [
            name
            for data, name in edges.ALL_SETS.items()
            if any(map(edges.outdated, results(finished, data, "ours", setting)))
        ]
        said += [f"{setting} nodes of {', '.join(names)}"] if names else []
    if not said:
        return ""
    return (
        f"Ours has to be repeated on {'; '.join(said)}: some of its runs there are from before a larger network had "
        "to be worth its cost, and before `concat` was chosen where it is almost as good as the best."
    )


def mean_accuracy(finished: Finished, data: str, row: Row, setting: Setting, share: float) -> float | None:
    found = values(finished, data, row, setting, share)
    return mean(found) if found else None


def _gains(finished: Finished) -> str:
    """Return the difference that edges make to a logistic probe, on every graph."""
    logistic, said = Row("", "ours", ("logistic",)), []
    settings: tuple[Setting, Setting] = ("unseen", "seen")
    for setting in settings:
        pairs = {
            name: [mean_accuracy(finished, data, row, setting, 1.0) for row in (logistic, ALONE)]
            for data, name in edges.ALL_SETS.items()
        }
        each = [f"{name} {a - b:+.1f}" for name, (a, b) in pairs.items() if a is not None and b is not None]
        said.append(f"{setting.capitalize()} nodes: {', '.join(each) or NOT_RUN}")
    return f"What edges add to features alone, logistic probe, all labels, in points. {'. '.join(said)}."


def twenty_labels(finished: Finished) -> Iterator[str]:
    """The published splits of Cora and Citeseer."""
    if not any(results(finished, data, "ours", "seen") for data in edges.FEW_LABELS):
        return
    yield "## Twenty labels of each class"
    yield (
        "Seen nodes, the published splits: 20 training labels of each class, 500 validation and 1,000 test nodes; "
        f"{len(SEEDS)} seeds unless a cell says fewer. The probe for few labels also uses codes without labels; "
        "validation nodes choose whether."
    )
    logistic, few = (Row("", "ours", (head,)) for head in ("logistic", "few"))
    rows, shown = [], []
    for data, name in edges.FEW_LABELS.items():
        cells = [values(finished, data, row, "seen", 1.0) for row in (logistic, few, ALONE, GCN, APPNP)]
        rows.append([name, *(_with_seeds(cell) if cell else NOT_RUN for cell in cells)])
        shown += [result for row in (ALONE, GCN, APPNP) for result in results(finished, data, row.method, "seen")]
    head = ["set", "ours with edges, logistic", "ours with edges, few", "ours, features alone", "GCN", "APPNP"]
    yield table(head, rows)
    yield made_by(shown)


def _with_seeds(cell: Sequence[float]) -> str:
    """Return accuracies of one split per seed, and how many there are if not all."""
    return figure(cell, 1) + (f" ({count(len(cell), 'seed')})" if len(cell) < len(SEEDS) else "")


def own_graphs(finished: Finished) -> Iterator[str]:
    """The rule on graphs that it was not settled on."""
    if not any(results(finished, data, "ours", "unseen") for data in made.RECIPES):
        return
    yield "## The choice of neighbours on graphs it was not settled on"
    yield (
        "Synthetic graphs of 4,000 nodes (`benchmarks/graphs/made.py`), unseen nodes, all training labels. Ours by a "
        "logistic probe, three seeds."
    )
    logistic = Row("", "ours", ("logistic",))
    mlp = Row("", "mlp", ("mlp",))
    rows, shown = [], []
    for data in made.RECIPES:
        found = results(finished, data, "ours", "unseen")
        shown += found
        ways = sorted({result["neighbours"]["chosen"] for result in found})
        cells = [values(finished, data, row, "unseen", 1.0) for row in (ALONE, logistic, GCN, mlp)]
        rows.append([data, ", ".join(ways) or NOT_RUN, *(figure(cell, 1) if cell else NOT_RUN for cell in cells)])
    yield table(["graph", "chosen", "features alone", "with edges", "GCN", "MLP"], rows)
    yield from _wrongly_off(finished)
    if shown:
        yield made_by(shown)


def _wrongly_off(finished: Finished) -> Iterator[str]:
    """Name the made graphs where edges are not used, and a GCN that uses them is ahead."""
    lost = []
    for data in made.RECIPES:
        ways = {result["neighbours"]["chosen"] for result in results(finished, data, "ours", "unseen")}
        ours, rival = (
            mean_accuracy(finished, data, row, "unseen", 1.0) for row in (Row("", "ours", ("logistic",)), GCN)
        )
        if ways == {"none"} and ours is not None and rival is not None and rival > ours:
            lost.append(f"{data} ({rival:.1f} against {ours:.1f})")
    if lost:
        yield (
            f"Edges are not used, and a GCN that uses them is ahead, on {', '.join(lost)}. There the codes of the two "
            'ends of an edge have little in common. `fit_graph(..., neighbours="concat")` uses edges all the same.'
        )


def edge_costs(finished: Finished) -> Iterator[str]:
    """Cost with edges, beside a GCN."""
    found = costs(finished)
    if not found:
        return
    yield "## Cost with edges"
    every = [row for timings in found.values() for row in timings]
    compiled = any("with edges" in row["method"] and "compiled" in row["method"] for row in every)
    yield (
        "From features (and edges) on the device to class scores, by the library's default network; "
        "`benchmarks/graphs/edge_cost.py` says what is timed, and its results hold every precision. *GCN*: milliseconds"
        " for all nodes, full batch, and for one node from ten sampled neighbours in each layer. The other columns are "
        "multiples of these: of the first for all nodes (the fastest precision), of the second for one node. *Memory*: "
        "working memory of ours from features alone and by PageRank, as a share of the GCN's, on a GPU. *Network*: its "
        "width and residual blocks."
        + (f" {COMPILED}" if compiled else "")
        + (f" {EARLIER_SIZE}" if any(row["network"] == EARLIER for row in every) else "")
        + (f" {EARLIER_ROWS}" if any(row["device"] == "cpu" and "at_a_time" not in row for row in every) else "")
    )
    rows = [line for data, timings in found.items() for line in _cost_lines(data, timings)]
    head = ["graph", "device", "network", "GCN, all", "features alone", *(way.in_words for way in WAYS), "memory"]
    yield table([*head, "GCN, one", "one, features alone", "one, with edges"], rows)
    yield made_by([run for data in found for run in _cost_runs(finished, data)])


def costs(finished: Finished) -> dict[str, list[Result]]:
    """Return what was timed on each graph that has a result."""
    runs = {data: _cost_runs(finished, data) for data in COSTS}
    return {data: _timings(some) for data, some in runs.items() if some}


def _cost_runs(finished: Finished, data: str) -> list[Result]:
    """Return the run on a machine with a GPU, and the later one on a CPU alone."""
    names = (f"edge-cost-{data}", f"edge-cost-{data}{ON_CPU_ALONE}")
    return [finished.results[name] for name in names if name in finished.results]


def _timings(runs: Sequence[Result]) -> list[Result]:
    """Return the rows of these runs, each with its network; of a device, those of the last run that has any."""
    by_device: dict[str, list[Result]] = {}
    for run in runs:
        network = f"{run['width']:,}, {run['blocks']}" if "blocks" in run else EARLIER
        rows = [{"nodes": run["nodes"], **row, "network": network} for row in run["timings"]]
        by_device |= {device: [row for row in rows if row["device"] == device] for device in devices_of(rows)}
    return [row for rows in by_device.values() for row in rows]


def devices_of(rows: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(row["device"] for row in rows))


def fastest(timings: Sequence[Result], device: str, begins: str, column: str) -> Result | None:
    """Return the fastest row of a device whose method begins so and has that column."""
    some = [row for row in timings if row["device"] == device and row["method"].startswith(begins) and column in row]
    return min(some, key=lambda row: row[column], default=None)


def _cost_lines(data: str, timings: Sequence[Result]) -> Iterator[list[str]]:
    """One line for each device."""
    name = edges.ALL_SETS.get(data, "synthetic, size of OGBN-Products")
    for device in devices_of(timings):
        every = fastest(timings, device, "GCN, full", "all_nodes_s")
        sampled = fastest(timings, device, "GCN, 10", "one_node_s")
        ours = [fastest(timings, device, begins, "all_nodes_s") for begins in (ALONE_COST, *map(with_way, WAYS))]
        ones = [fastest(timings, device, begins, "one_node_s") for begins in (ALONE_COST, STORED_COST)]
        memory = [cost_ratio(row, every, "working_mb") for row in (ours[0], ours[-1])]
        first = next(row for row in timings if row["device"] == device)
        yield [
            f"{name}, {first['nodes']:,} nodes",
            device,
            first["network"],
            NONE if every is None else f"{1e3 * every['all_nodes_s']:.3g}",
            *(_times(cost_ratio(row, every, "all_nodes_s")) for row in ours),
            NONE if None in memory else " / ".join(map(_times, memory)),
            NONE if sampled is None else f"{1e3 * sampled['one_node_s']:.3g}",
            *(_times(cost_ratio(row, sampled, "one_node_s")) for row in ones),
        ]


def with_way(way: Propagation) -> str:
    return f"ours with edges, {way.in_words},"


def cost_ratio(row: Result | None, base: Result | None, column: str) -> float | None:
    known = row is not None and base is not None and column in row and column in base
    return row[column] / base[column] if known and row is not None and base is not None else None


def _times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:.2f}" if ratio < 1 else f"{ratio:.1f}"
