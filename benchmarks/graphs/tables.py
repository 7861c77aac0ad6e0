"""Generator of docs/graph-benchmarks.md, from the results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, emphasise, figure, made_by, table
from benchmarks.graphs import growth, withheld
from benchmarks.graphs.edge_goals import edge_goals, every_goal
from benchmarks.graphs.edge_tables import edge_costs, own_graphs, twenty_labels, with_edges
from benchmarks.graphs.goals import goals
from benchmarks.graphs.jobs import (
    CANDIDATES,
    COST,
    FORMS,
    FURTHER,
    LENGTH,
    OFFICIAL,
    RELATIONS,
    SETS,
    SHARES,
    Job,
    Setting,
)
from benchmarks.graphs.plan import SEEDS, UNSEEN_RIVALS, Finished
from benchmarks.graphs.scale_tables import scale
from benchmarks.graphs.words import findings

Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a quality table: a method and one of its classifiers."""

    label: str
    graph: str
    method: str
    head: str
    column: str = "unseen"
    """Figure shown for unseen nodes."""


RIVAL_ROWS = (
    Row("MLP on features", "no", "mlp", "mlp"),
    Row("Laplacian eigenmap + MLP", "transductive", "laplacian", "mlp"),
    Row("node2vec + MLP", "transductive", "node2vec", "mlp"),
    Row("GCN, full batch", "yes", "gcn", "gcn"),
    Row("GCN, full batch, without edges at inference", "no", "gcn", "gcn", "unseen_alone"),
    Row("GCN, sampled neighbours", "yes", "gcn-sampled", "gcn-sampled"),
    Row("BGRL, logistic probe", "yes", "bgrl", "logistic"),
    Row("BGRL + MLP", "yes", "bgrl", "mlp"),
)
OUR_HEADS = {"logistic": "logistic probe", "mlp": "MLP"}
FORM_NAMES = {
    "scl": "SCL (unordered)",
    "nested": "nested moments (ordered)",
    "trace": "Ritz trace (unordered)",
    "neuralef": "the paper's NeuralEF, ordered",
    "neuralef-unordered": "the paper's NeuralEF, unordered",
}
assert set(FORM_NAMES) == set(FORMS)


def found(finished: Finished, data: str, row: Row, setting: Setting) -> list[Result]:
    """The results behind a row, all seeds."""
    jobs = [Job(data, row.method, setting, seed, relation_of(finished, data, row.method)) for seed in SEEDS]
    return [finished.results[job.name] for job in jobs if job.name in finished.results]


def relation_of(finished: Finished, data: str, method: str) -> str:
    return (finished.relation(data) or "") if method in FORMS else ""


def accuracies(results: Sequence[Result], head: str, share: float, column: str) -> list[float]:
    """Return accuracies in percent, of all seeds and splits; identical runs count as one."""
    out: list[float] = []
    for result in results:
        some = [run for run in result.get("runs", []) if run["head"] == head and run["share"] == share]
        values = [100 * run[column] for run in some if run.get(column) is not None]
        # The one split of a set and all of its labels: only the device's rounding differs from run to run.
        repeated = share == 1.0 and result["job"]["data"] in OFFICIAL and len(values) > 1
        out += [mean(values)] if repeated else values
    return out


def cells(finished: Finished, data: str, row: Row) -> list[str]:
    """Seen at every share, unseen at every share, and the seconds of training."""
    out = []
    for setting, column in (("seen", "seen"), ("unseen", row.column)):
        results = found(finished, data, row, setting)  # type: ignore[arg-type]
        if setting == "seen" and row.column != "unseen":
            out += [NONE] * len(SHARES)  # the same as the row above it
            continue
        for share in SHARES:
            values = accuracies(results, row.head, share, column)
            planned = setting == "seen" or row.method in (*UNSEEN_RIVALS, *FORMS)
            missing = NOT_RUN if planned else NONE
            collapsed = bool(results) and all("collapsed" in result for result in results)
            out.append(figure(values, 1) if values else "collapsed" if collapsed else missing)
    return [*out, _seconds(found(finished, data, row, "seen"))]


def _seconds(results: Sequence[Result]) -> str:
    """Return the training time on a GPU if a run was on one, else on a CPU; the two are never averaged."""
    taken = [(result["device"].startswith("cpu"), result["seconds_training"]) for result in results if "runs" in result]
    if not taken:
        return NOT_RUN
    on_cpu = all(cpu for cpu, _ in taken)
    return f"{mean(seconds for cpu, seconds in taken if cpu == on_cpu):.1f}{' (CPU)' if on_cpu else ''}"


def our_rows(finished: Finished, data: str) -> list[Row]:
    """Return rows of our chosen form with both classifiers; they are empty until it is known."""
    form = finished.form(data)
    label = "ours" if form is None else f"ours: {FORM_NAMES[form]}"
    return [Row(f"**{label}**, {words}", "**no**", form or "scl", head) for head, words in OUR_HEADS.items()]


def quality(finished: Finished) -> Iterator[str]:
    yield "## Accuracy in percent"
    yield (
        "Columns: share of the training labels. *Seen*: trained on the whole graph, tested on its test nodes. "
        "*Unseen*: trained without a fifth of the labelled nodes, their features and their edges, and tested on those. "
        "GCN and BGRL then see the edges of the new nodes, ours does not. Seconds: training time of one representation "
        "or one supervised network. They are upper bounds, since other jobs shared the GPU (CPU: on one core, if no "
        "run was on a GPU). Figures are mean ± sample standard deviation "
        f"over all runs: at most {len(SEEDS)} seeds with 2 splits each, fewer than the 10 runs of `eigenmap evaluate "
        "nodes`. Debian has one split, so its runs with all labels differ only by the seed. Laplacian eigenmap and "
        "node2vec have no code for a new node. GCN on sampled neighbourhoods, a way to train it, was not tried on new "
        "nodes."
    )
    shares = [f"{100 * share:g} %" for share in SHARES]
    head = ["method", "graph at inference", *(f"seen {s}" for s in shares), *(f"unseen {s}" for s in shares), "s"]
    for data, name in SETS.items():
        rows = [*our_rows(finished, data), *RIVAL_ROWS]
        body = [[row.label, *cells(finished, data, row)] for row in rows]
        best = emphasise([line[:-1] for line in body])
        yield f"### {name}"
        lines = zip(best, rows, body, strict=True)
        yield table(head, [[line[0], row.graph, *line[1:], full[-1]] for line, row, full in lines])
        both: tuple[Setting, Setting] = ("seen", "unseen")
        results = [result for row in rows for setting in both for result in found(finished, data, row, setting)]
        unique = list({str(result["job"]): result for result in results}.values())
        yield _relation(finished, data) + made_by(unique)


def _relation(finished: Finished, data: str) -> str:
    relation = finished.relation(data)
    if relation is None:
        return "The screening of our relation is not complete. "
    settings = (
        ", ".join(f"{name} = {value}" for name, value in {**RELATIONS, **FURTHER}[relation].items())
        or "one hop, degree measure"
    )
    steps, pairs = LENGTH[data]
    return f"Our relation, chosen on validation labels: {relation} ({settings}); {steps:,} steps of {pairs:,} pairs. "


def other_forms(finished: Finished) -> Iterator[str]:
    yield "## Ordered and unordered forms"
    yield "Seen nodes, all training labels, logistic probe of the encoder and MLP; the same relation and steps for all."
    head = ["objective", *(f"{name}, {words}" for name in SETS.values() for words in OUR_HEADS.values())]
    rows, results = [], []
    for form, label in FORM_NAMES.items():
        line = [label]
        for data in SETS:
            for name in OUR_HEADS:
                made = found(finished, data, Row("", "", form, name), "seen")
                values = accuracies(made, name, 1.0, "seen")
                collapsed = bool(made) and all("collapsed" in result for result in made)
                line.append(figure(values, 1) if values else "collapsed" if collapsed else NOT_RUN)
                results += made
        rows.append(line)
    yield table(head, emphasise(rows))
    yield made_by(list({str(result["job"]): result for result in results}.values()))


def lengths(finished: Finished) -> Iterator[str]:
    yield "## Accuracy against code length"
    yield (
        "Seen nodes, all training labels, logistic probe unless a row says MLP. *aligned*: our ordered code; *own "
        "order*: the projector as the objective left it; *PCA*: centred, of the encoder (for BGRL, of its embedding). "
        "An MLP gets standardised features, which makes the many weak ones at the end of a long code as large as the "
        "first. With few training nodes it therefore does better with a short code."
    )
    dims = ("8", "16", "32", "64", "128", "full")
    for data, name in SETS.items():
        made = found(finished, data, our_rows(finished, data)[0], "seen")
        rival = found(finished, data, RIVAL_ROWS[6], "seen")
        rows = []
        for owner, results in (("ours", made), ("BGRL", rival)):
            table_rows = [row for result in results for row in result.get("lengths", [])]
            for code, probe in dict.fromkeys((row["code"], row["probe"]) for row in table_rows):
                some = [row for row in table_rows if (row["code"], row["probe"]) == (code, probe)]
                rows.append([f"{owner}, {code}{', MLP' if probe == 'mlp' else ''}", *_curve(some, dims)])
        yield f"### {name}"
        yield table(["code", *dims], emphasise(rows) if rows else [["ours", *[NOT_RUN] * len(dims)]])


def _curve(rows: Sequence[Result], dims: Sequence[str]) -> list[str]:
    full = max(row["dim"] for row in rows)
    out = []
    for dim in dims:
        values = [100 * row["accuracy"] for row in rows if row["dim"] == (full if dim == "full" else int(dim))]
        out.append(figure(values, 1) if values else NONE)
    return out


def probes(finished: Finished) -> Iterator[str]:
    yield "## Three linear probes of the same encoder"
    yield "Ours, seen nodes; the probes are described in `eigenmap.evaluation.nodes`."
    names = ("ridge", "logistic", "paper")
    shares = [f"{100 * share:g} %" for share in SHARES]
    head = ["set", *(f"{name} {share}" for name in names for share in shares)]
    rows = []
    for data, label in SETS.items():
        results = found(finished, data, our_rows(finished, data)[0], "seen")
        values = [accuracies(results, name, share, "seen") for name in names for share in SHARES]
        rows.append([label, *(figure(value, 1) if value else NOT_RUN for value in values)])
    yield table(head, rows)


def screening(finished: Finished) -> Iterator[str]:
    yield "## What the validation labels chose from"
    yield (
        "Mean of the logistic probe's and the better MLP head's accuracy on validation nodes, seed 0, one split, all "
        "training labels. These runs did not use test labels."
    )

    def rows_of(jobs: dict[str, Callable[[str], Job | None]]) -> list[list[str]]:
        rows = []
        for label, job_on in jobs.items():
            scores = [None if (job := job_on(data)) is None else finished.validation(job) for data in SETS]
            rows.append([label, *(NOT_RUN if score is None else f"{100 * score:.1f}" for score in scores)])
        return emphasise(rows)

    def relation(name: str) -> Callable[[str], Job | None]:
        return lambda data: Job(data, "scl", relation=name, screening=True)

    def form(name: str) -> Callable[[str], Job | None]:
        def job(data: str) -> Job | None:
            chosen = finished.relation(data)
            return None if chosen is None else Job(data, name, relation=chosen, screening=True)

        return job

    yield table(
        ["relation, with SCL", *SETS.values()], rows_of({name: relation(name) for name in (*RELATIONS, *FURTHER)})
    )
    yield table(["form, on that relation", *SETS.values()], rows_of({FORM_NAMES[n]: form(n) for n in CANDIDATES}))
    yield made_by([result for name, result in finished.results.items() if result.get("job", {}).get("screening")])


def cost(finished: Finished) -> Iterator[str]:
    yield "## Cost of inference"
    yield (
        "Time for all test nodes at once, per node of those, and for a single node (median of 100), classifier "
        "included. The paper compares one node of its own method with GCN on the whole test set; this table has both "
        "for each. GCN on the whole graph always computes all nodes; for a single node it uses the exact "
        "neighbourhood. Ours has width 256 unless another is given."
    )
    head = ["set", "method", "device", "all test nodes, ms", "per node, µs", "one node, ms"]
    rows, results = [], []
    for data, label in SETS.items():
        result = finished.results.get(Job(data, COST).name)
        if result is None:
            rows.append([label, *[NOT_RUN] * 5])
            continue
        results.append(result)
        for row in result["timings"]:
            figures = row["all_test_nodes_s"] * 1e3, row["per_node_s"] * 1e6, row["one_node_s"] * 1e3
            name = f"{label}, {result['test_nodes']:,} test nodes"
            rows.append([name, row["method"], row["device"], *map(_three_digits, figures)])
    yield table(head, rows)
    yield made_by(results)


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


HEAD = """
# Node codes: quality and cost

<!-- Generated from `benchmarks/graphs/results/` by `python -m benchmarks graphs page`; do not edit. -->

Ours is `GraphEigenmap`: it learns from the graph and then sees only the features of a node, except under "with edges".
"""
PROTOCOL = """
## Protocol

Labelled nodes are split 10 / 10 / 80 % into training, validation and test nodes. Debian has its own split, of the same
shares; the others have random ones. 1, 10 or 100 % of the training labels are used, stratified, with at least one per
class. Every choice is made on validation labels, in the same way for every method. Choices are settings of a rival,
penalty and epoch of a classifier, whether raw features are joined to a code, our relation and form. Test nodes are
classified once. An MLP has three layers of width 512, dropout and batch normalisation. Unlabelled nodes are in the
graph but in no split. `python -m benchmarks graphs missing` lists the runs that are missing.
"""


def page(folder: Path) -> str:
    """The whole page."""
    finished = Finished(folder)
    parts = (
        *(with_edges, own_graphs, twenty_labels, _why_lower, edge_costs),
        *(quality, other_forms, lengths, probes, cost, screening),
    )
    blocks = [HEAD.strip(), *findings(finished, every_goal(finished, folder)), *edge_goals(finished, folder)]
    blocks += [*goals(finished), PROTOCOL.strip()]
    blocks += [block for part in parts for block in part(finished)]
    blocks += [*scale(folder), *growth.section(folder / growth.FILE), *growth.embedded(folder / growth.EMBEDDED)]
    return "\n\n".join(blocks) + "\n"


def _why_lower(finished: Finished) -> Iterator[str]:
    path = finished.paths.get(withheld.RESULT.stem)
    return withheld.section(path) if path is not None else iter(())
