"""One run of the study of node codes: train a job, measure it, write one JSON file.

    python -m benchmarks.graphs.quality run --data FOLDER --set planetoid_cora --method gcn --setting unseen --seed 0
    python -m benchmarks.graphs.quality cost --data FOLDER --set planetoid_cora

FOLDER holds <set>.npz files in the format of docs/graphs.md. Nodes are split 10 / 10 / 80 for training, validation and
test; 1, 10 or 100 % of the training labels are used, stratified, at least one of each class. Every choice (settings of
a rival, penalty of a probe, epoch, whether raw features are joined) is made on validation labels, for every method the
same way (settings of networks on the first split, for each share of the labels); test nodes are classified once. An MLP
has three layers of width 512, also where it is the head of codes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.graphs import RESULTS
from benchmarks.graphs import cost as graph_cost
from benchmarks.graphs.jobs import COST, FORMS, FURTHER, RELATIONS, RIVALS, SETS, SHARES, SHORT, Job, Setting
from benchmarks.graphs.rivals import bgrl, gcn, laplacian, mlp, node2vec
from benchmarks.graphs.rivals.features import Features, standardised
from benchmarks.graphs.rivals.propagation import gcn_operator
from benchmarks.graphs.tasks import Task, load_task
from eigenmap import GraphEigenmap
from eigenmap.evaluation.nodes import (
    PROBES,
    Labelled,
    NodeSplit,
    evaluate_nodes,
    few_labels,
)
from eigenmap.model import Eigenmap
from eigenmap.networks import SparseRows
from eigenmap.training import CollapseError, DivergedError

PROTOCOL = (
    "accuracy on test nodes; 10 / 10 / 80 % of the labelled nodes for training, validation, test; everything is chosen "
    "on validation labels; unseen: a fifth of the labelled nodes, without features and edges in training"
)
N_COMPONENTS = 128
Run = dict[str, Any]


def run(job: Job, data: Path, *, n_splits: int = 2, device: str = "cpu") -> dict[str, Any]:
    """Train a job and measure it."""
    n_splits = 1 if job.screening else n_splits
    if device == "cuda":
        torch.set_float32_matmul_precision("high")  # ours is trained so, and the rivals are too
    task = load_task(data, job.data, job.setting, job.seed, n_splits, device)
    result: dict[str, Any] = {
        "benchmark": "graphs",
        "protocol": PROTOCOL,
        "job": asdict(job),
        "splits": n_splits,
        "unseen_nodes": len(task.unseen),
        **harness.environment(),
    }
    began = time.perf_counter()
    measure = METHODS[job.method] if not job.ours else screen if job.screening else measure_ours
    try:
        result |= measure(task, job)
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error)}
    return {**result, "seconds": time.perf_counter() - began}


# Runs: one split, one share of the labels, one classifier.


def few(task: Task) -> Iterator[tuple[int, NodeSplit, float, Tensor]]:
    """Every split with every share of its training labels, in the numbers of the training graph.

    With all labels, a repeated split would be the same run again.
    """
    for number, split in enumerate(task.splits):
        for share in SHARES:
            if share == 1.0 and any(split is earlier for earlier in task.splits[:number]):
                continue
            yield number, split, share, few_labels(task.seen_y, split.train.cpu(), share, number).to(task.y.device)


def scored(
    task: Task,
    number: int,
    share: float,
    train: Tensor,
    head: str,
    validation: float,
    guess: Callable[[Tensor], Tensor],
) -> Run:
    """One run; `guess` gives the classes of nodes of the whole graph."""

    def right(nodes: Tensor) -> float:
        return float((guess(nodes) == task.y[nodes]).double().mean())

    return {
        "split": number,
        "share": share,
        "labels": len(train),
        "head": head,
        "validation": validation,
        "seen": right(task.kept[task.splits[number].test]),
        "unseen": right(task.unseen) if len(task.unseen) else None,
    }


def with_mlp(task: Task, inputs: Mapping[str, Features], *, seed: int) -> list[Run]:
    """An MLP on each of several inputs, given for all nodes; validation labels choose the input and the settings.

    That choice is made on the first split, for each share of the labels, and kept for the others.
    """
    runs = []
    chosen: dict[float, tuple[str, mlp.Fitting]] = {}
    for number, split, share, train in few(task):
        grid = [chosen[share]] if share in chosen else [(name, how) for name in inputs for how in mlp.GRID]

        def fitted(
            choice: tuple[str, mlp.Fitting], train: Tensor = train, split: NodeSplit = split
        ) -> tuple[torch.nn.Sequential, float]:
            name, how = choice
            nodes = task.kept[train], task.kept[split.validation]
            return mlp.fit(inputs[name], task.y, *nodes, n_classes=task.n_classes, how=how, seed=seed)

        net, validation, chosen[share] = mlp.pick(grid, fitted)
        name, how = chosen[share]
        guess = lambda nodes, net=net, x=inputs[name]: mlp.predict(net, x, nodes).argmax(1)  # noqa: E731
        made = scored(task, number, share, train, "mlp", validation, guess)
        runs.append({**made, "input": name, "dropout": how.dropout})
    return runs


def with_probes(task: Task, codes: Tensor, names: Sequence[str] = tuple(PROBES)) -> list[Run]:
    """Linear probes of codes that are given for all nodes."""
    runs = []
    for number, split, share, train in few(task):
        parts = [Labelled(codes[nodes], task.y[nodes]) for nodes in (task.kept[train], task.kept[split.validation])]
        for name in names:
            probe = PROBES[name](*parts)
            guess = lambda nodes, probe=probe: probe.predict(codes[nodes])  # noqa: E731
            runs.append(scored(task, number, share, train, name, probe.accuracy(*parts[1]), guess))
    return runs


# Rivals.


def measure_mlp(task: Task, job: Job) -> dict[str, Any]:
    began = time.perf_counter()
    runs = with_mlp(task, {"raw": (rival_features(task),)}, seed=job.seed)
    return {"runs": runs, "seconds_training": (time.perf_counter() - began) / len(runs)}


def measure_transductive(task: Task, job: Job) -> dict[str, Any]:
    """Codes of the training graph's nodes with an MLP on top; other nodes have no code."""
    began = time.perf_counter()
    if job.method == "laplacian":
        found = laplacian.eigenmap(task.matrix, 128, seed=job.seed)
    else:
        found = node2vec.embed(task.matrix, seed=job.seed, device=task.y.device)
    seconds = time.perf_counter() - began
    codes = torch.zeros(len(task.y), found.shape[1], device=task.y.device)
    codes[task.kept] = standardised(found.to(task.y.device))
    seen_only = replace(task, unseen=task.unseen[:0])
    runs = with_mlp(seen_only, {"codes": (codes,), "codes and raw": (codes, rival_features(task))}, seed=job.seed)
    return {"runs": runs, "seconds_training": seconds}


def measure_gcn(task: Task, job: Job) -> dict[str, Any]:
    """GCN, its settings chosen on the first split for each share; unseen nodes with their edges, and without any."""
    device = task.y.device
    x, seen_x = rival_features(task), rival_features(task)[task.kept]
    operator, whole = gcn_operator(task.matrix, device), gcn_operator(task.whole, device)
    alone = gcn_operator(task.whole * 0, device)
    fitting: dict[str, Any] = {"n_classes": task.n_classes, "seed": job.seed}
    chosen: dict[float, gcn.Settings] = {}
    runs, seconds = [], []
    for number, split, share, train in few(task):
        # A sampled step costs the host a lot: two settings, which differ least from the others' best, are tried there.
        tried = gcn.GRID if job.method == "gcn" else gcn.GRID[:2]
        grid = [chosen[share]] if share in chosen else tried

        def fitted(how: gcn.Settings, train: Tensor = train, split: NodeSplit = split) -> tuple[gcn.GCN, float]:
            began = time.perf_counter()
            given = task.seen_y, train, split.validation
            if job.method == "gcn":
                done = gcn.fit((seen_x,), operator, *given, how=how, **fitting)
            else:
                done = gcn.fit_sampled((seen_x,), task.matrix, operator, *given, how=how, **fitting)
            seconds.append(time.perf_counter() - began)
            return done

        net, validation, chosen[share] = mlp.pick(grid, fitted)
        # Nodes of the training graph use that graph; later nodes have their edges, or none.
        seen = torch.full_like(task.y, -1)
        seen[task.kept] = gcn.scores(net, (seen_x,), operator).argmax(1)
        if len(task.unseen):
            seen[task.unseen] = gcn.scores(net, (x,), whole)[task.unseen].argmax(1)
        made = scored(task, number, share, train, job.method, validation, seen.__getitem__)
        made["settings"] = asdict(chosen[share])
        if len(task.unseen):
            without = gcn.scores(net, (x,), alone)[task.unseen].argmax(1)
            made["unseen_alone"] = float((without == task.y[task.unseen]).double().mean())
        runs.append(made)
    return {"runs": runs, "seconds_training": sum(seconds) / len(seconds), "fits": len(seconds)}


def measure_bgrl(task: Task, job: Job) -> dict[str, Any]:
    """BGRL for each setting of its grid; the one kept is best on the validation labels of the first split."""
    x = rival_features(task)
    whole = gcn_operator(task.whole, task.y.device)
    tried = []
    for how in bgrl.GRID:
        began = time.perf_counter()
        encoder, seen = bgrl.embed((x[task.kept],), task.matrix, how, seed=job.seed)
        seconds = time.perf_counter() - began
        # Withheld nodes are embedded later, from the whole graph.
        codes = torch.zeros(len(task.y), seen.shape[1], device=seen.device)
        codes[task.kept] = seen
        if len(task.unseen):
            codes[task.unseen] = bgrl.represent(encoder, (x,), whole)[task.unseen]
        chosen_on = (task.kept[task.splits[0].train], task.kept[task.splits[0].validation])
        parts = [Labelled(codes[nodes], task.y[nodes]) for nodes in chosen_on]
        tried.append((PROBES["ridge"](*parts).accuracy(*parts[1]), codes, seconds, how))
    _, codes, seconds, how = max(tried, key=lambda entry: entry[0])
    runs = with_probes(task, codes, ("logistic",))
    code = standardised(codes, task.kept)
    runs += with_mlp(task, {"codes": (code,), "codes and raw": (code, x)}, seed=job.seed)
    return {
        "runs": runs,
        "settings": asdict(how),
        "seconds_training": seconds,
        "lengths": by_length(task, {"PCA": principal(codes, task)}),
    }


METHODS: Mapping[str, Callable[[Task, Job], dict[str, Any]]] = {
    "mlp": measure_mlp,
    "gcn": measure_gcn,
    "node2vec": measure_transductive,
    "laplacian": measure_transductive,
    "gcn-sampled": measure_gcn,
    "bgrl": measure_bgrl,
}
assert tuple(METHODS) == RIVALS


def rival_features(task: Task) -> Tensor | SparseRows:
    """Features as the rivals' networks take them: dense on a GPU, where that is faster than sparse products."""
    if isinstance(task.x, SparseRows) and task.x.device.type == "cuda":
        return task.x.dense()
    return task.x


# Ours.


def fitted_model(task: Task, job: Job) -> tuple[Eigenmap, dict[str, Any]]:
    """Return our model and its settings."""
    device = "cuda" if task.y.device.type == "cuda" else "cpu"
    named = {name: job.settings[name] for name in ("steps", "objective")}
    further = {name: value for name, value in job.settings.items() if name not in named}
    estimator = GraphEigenmap(N_COMPONENTS, settings=further, random_state=job.seed, device=device, **named)
    model = estimator.fit(task.graph()).model_
    alignment = model.alignment
    return model, {
        "settings": job.settings,
        "source": model.source,
        "alignment": {"t": alignment.t, "ridge": alignment.ridge, "own_order": alignment.own_order},
        "eigenvalues": model.eigenvalues_[:32].tolist(),
        "seconds_training": model.training["seconds"] + model.training["alignment_seconds"],
        "steps": model.training["steps"],
    }


def screen(task: Task, job: Job) -> dict[str, Any]:
    """Measure validation accuracy of a form and a relation with all training labels; test nodes are not used."""
    model, made = fitted_model(task, job)
    encoder = outputs(model, task, "encoder")
    split = task.splits[0]
    parts = [Labelled(encoder[nodes], task.y[nodes]) for nodes in (split.train, split.validation)]
    linear = PROBES["logistic"](*parts).accuracy(*parts[1])
    x = (standardised(encoder), rival_features(task))
    given = {"n_classes": task.n_classes, "how": mlp.GRID[0], "seed": job.seed}
    heads = [mlp.fit(inputs, task.y, split.train, split.validation, **given)[1] for inputs in (x[:1], x)]
    return {**made, "validation": {"logistic": linear, "mlp": heads[0], "mlp and raw": heads[1]}}


def measure_ours(task: Task, job: Job) -> dict[str, Any]:
    """Our encoder without a graph at inference: linear probes, an MLP head, and codes of every length."""
    model, made = fitted_model(task, job)
    encoder = outputs(model, task, "encoder")
    runs = with_probes(task, encoder)
    code = standardised(encoder, task.kept)
    runs += with_mlp(task, {"codes": (code,), "codes and raw": (code, rival_features(task))}, seed=job.seed)
    result = {"runs": runs, **made}
    if job.setting == "seen":
        features = task.x.to("cpu")
        codes = {
            "aligned": torch.from_numpy(model.encode(features, weighting="none", normalize=False, batch_size=4096)),
            "own order": outputs(model, task, "projector"),
            "PCA": principal(encoder, task),
        }
        codes = {name: code.to(task.y.device) for name, code in codes.items()}
        result["lengths"] = by_length(task, codes) + mlp_by_length(task, codes, job.seed)
    return result


def outputs(model: Eigenmap, task: Task, source: Any) -> Tensor:
    """Return one of the network's outputs for all nodes, with rows of norm 1."""
    rows = model.input.read(task.x.to("cpu"))
    return torch.cat(list(model.raw(rows, 4096, source=source))).to(task.y.device)


def principal(codes: Tensor, task: Task) -> Tensor:
    """Principal components of codes, centred; directions and mean are those of the kept nodes."""
    centred = codes.double() - codes[task.kept].double().mean(0)
    _, directions = torch.linalg.eigh(centred[task.kept].T @ centred[task.kept])
    return (centred @ directions.flip(1)).to(codes.dtype)


def by_length(task: Task, codes: Mapping[str, Tensor], n_splits: int = 1) -> list[dict[str, Any]]:
    """Accuracy of the logistic probe at every code length, all training labels, first split."""
    rows: list[dict[str, Any]] = []
    splits = [NodeSplit(*(part.cpu() for part in split)) for split in task.splits[:n_splits]]
    for name, code in codes.items():
        found = evaluate_nodes(code[task.kept], task.seen_y, splits, shares=(1.0,))
        rows += [{"code": name, **row} for row in found]
    return rows


def mlp_by_length(task: Task, codes: Mapping[str, Tensor], seed: int) -> list[dict[str, Any]]:
    """Measure accuracy with an MLP head for two orders: short lengths and all features, first split."""
    rows = []
    split = task.splits[0]
    given = {"n_classes": task.n_classes, "how": mlp.GRID[0], "seed": seed}
    for name in ("aligned", "PCA"):
        code = standardised(codes[name], task.kept)
        for dim in (*(dim for dim in SHORT if dim < code.shape[1]), code.shape[1]):
            x = (code[:, :dim],)
            net, validation = mlp.fit(x, task.y, task.kept[split.train], task.kept[split.validation], **given)
            test = task.kept[split.test]
            scores = {"validation": validation, "accuracy": mlp.accuracy(mlp.predict(net, x, test), task.y[test])}
            rows.append({"code": name, "probe": "mlp", "dim": dim, "share": 1.0, "runs": 1, "spread": 0.0, **scores})
    return rows


def summary(result: dict[str, Any]) -> str:
    """Summarise a run in a few lines: validation accuracies, on which choices may be based."""
    job = result["job"]
    head = " ".join([job["data"], job["method"], job["relation"] or "-", job["setting"], f"seed {job['seed']}"])
    if "collapsed" in result:
        return f"{head}: {result['collapsed'][:150]}"
    lines = [f"{head}: {result['seconds']:.0f} s, training {result['seconds_training']:.1f} s"]
    if "validation" in result:
        found = ", ".join(f"{name} {100 * score:.1f}" for name, score in result["validation"].items())
        return f"{lines[0]}; validation: {found}"
    for name in dict.fromkeys(run["head"] for run in result["runs"]):
        cells = []
        for share in SHARES:
            found = [run["validation"] for run in result["runs"] if (run["head"], run["share"]) == (name, share)]
            cells.append(f"{100 * sum(found) / len(found):.1f}")
        lines.append(f"   {name:12} validation at 1 / 10 / 100 %: {' '.join(cells)}")
    for code in dict.fromkeys((row["code"], row["probe"]) for row in result.get("lengths", [])):
        found = [row for row in result["lengths"] if (row["code"], row["probe"]) == code]
        cells = [f"{row['dim']}: {100 * row['validation']:.1f}" for row in found]
        lines.append(f"   {' '.join(code):28} {'  '.join(cells)}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one, cost = verbs.add_parser("run"), verbs.add_parser("cost")
    for verb in (one, cost):
        verb.add_argument("--data", type=Path, required=True, help="folder with <set>.npz")
        verb.add_argument("--set", choices=SETS, required=True)
        verb.add_argument("--results", type=Path, default=RESULTS)
        verb.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    one.add_argument("--method", choices=(*RIVALS, *FORMS), required=True)
    one.add_argument("--relation", choices=("", *RELATIONS, *FURTHER), default="", help="of our forms")
    one.add_argument("--screen", action="store_true", help="only validation accuracy, for choosing")
    one.add_argument("--setting", choices=get_args(Setting), default="seen")
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    device = given.device if given.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if given.verb == "cost":
        result = graph_cost.measure(given.data, given.set, device)
        harness.write(given.results / f"{Job(given.set, COST).name}.json", result)
        print(graph_cost.summary(result))
        return
    if (given.method in FORMS) != bool(given.relation):
        parser.error("our forms need --relation, and rivals have none")
    job = Job(given.set, given.method, given.setting, given.seed, given.relation, given.screen)
    result = run(job, given.data, n_splits=given.splits, device=device)
    harness.write(given.results / f"{job.name}.json", result)
    print(summary(result))


if __name__ == "__main__":
    main()
