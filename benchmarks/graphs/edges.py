"""Ours with edges at inference, beside SIGN, APPNP, GLNN, GCN, BGRL, node2vec and Laplacian + MLP.

    python -m benchmarks.graphs.edges run --data FOLDER --set planetoid_cora --method ours --setting unseen --seed 0
    python -m benchmarks.graphs.edges sweep --data FOLDER --results FOLDER --seconds 560 --workers 14    # the missing
    python -m benchmarks.graphs.edges sweep --data FOLDER --results FOLDER --slower 3 --only "*cora*-ours-*" "*cora*"

The protocol, the splits and the choices on validation labels are those of `quality`. Nodes of the training graph see
that graph; nodes that were withheld get codes, or scores, from the whole graph with their edges. `ours` is the
library's default fit, its way to use neighbours chosen without labels; `ours-hops` is trained on propagated features.
Results of `glnn` hold those of its teacher, a tuned GCN, too. Two heterophilous graphs are among the sets, with their
published splits. The rule that chooses the use of neighbours was settled on some of these graphs; the graphs of `made`
were not used for it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.common import harness
from benchmarks.graphs import RESULTS, made, pool, quality
from benchmarks.graphs.jobs import SETS, Setting
from benchmarks.graphs.jobs import Job as PlainJob
from benchmarks.graphs.rivals import appnp, gcn, glnn, mlp
from benchmarks.graphs.rivals.features import standardised
from benchmarks.graphs.rivals.propagation import gcn_operator
from benchmarks.graphs.tasks import HETEROPHILOUS, Task, load_task
from eigenmap.evaluation.few_labels import Classifier, Labelled, fit_probe_few
from eigenmap.evaluation.nodes import NodeSplit, fit_probe_logistic
from eigenmap.fitting.graph import fit_graph
from eigenmap.fitting.neighbours import best_of
from eigenmap.fitting.size import FOUND, PATIENCE, SIZES, is_worth_its_cost
from eigenmap.model import Eigenmap

ALL_SETS: Mapping[str, str] = {**SETS, "actor": "Actor", "squirrel_filtered": "Squirrel"}
SEEDS = (0, 1, 2)
HOPS = 2
"""Steps of SIGN, and of our features where they are propagated."""
OURS: Mapping[str, Mapping[str, Any]] = {"ours": {}, "ours-hops": {"feature_hops": HOPS}}
"""What differs from the library's defaults."""
KNOWN = ("mlp", "gcn", "bgrl", "node2vec", "laplacian")
"""Rivals of `quality`, which has them on the five homophilous sets. Here the teacher of `glnn` is the GCN."""
FEW_LABELS: Mapping[str, str] = {
    "planetoid_cora-official": "Cora, official split",
    "planetoid_citeseer-official": "Citeseer, official split",
}
"""Sets with 20 labels of each class; seen nodes."""
TRANSDUCTIVE = ("node2vec", "laplacian")
ON_MADE = ("ours", "glnn", "mlp")
"""Methods on the graphs of `made`, unseen nodes."""
ON_FEW = ("ours", "glnn", "appnp")
"""Methods on sets with 20 labels of each class."""
SECONDS = {"ours": 140.0, "ours-hops": 150.0, "sign": 45.0, "appnp": 50.0, "glnn": 125.0, "bgrl": 200.0, "mlp": 20.0}
"""For one H200 that fourteen jobs share, on a graph of size 1, as the first sweep took; 40 elsewhere.

Ours took 85 there; the choice of a size, which it did not make then, is added by estimate."""
SIZE: Mapping[str, float] = {"amazon_computers": 1.0, "coauthor_physics": 1.5, "debian_bookworm": 1.5}
"""Size of a graph; 0.5 elsewhere."""
Runs = list[dict[str, Any]]


@dataclass(frozen=True)
class EdgeJob:
    """One run."""

    data: str
    method: str
    setting: Setting
    seed: int

    @property
    def name(self) -> str:
        """Name of the result."""
        return f"edges-{self.data}-{self.method}-{self.setting}-s{self.seed}"

    @property
    def seconds(self) -> float:
        """Seconds it is likely to take."""
        return SECONDS.get(self.method, 40.0) * SIZE.get(self.data, 0.5)


def jobs() -> Iterator[EdgeJob]:
    """All runs, those that decide first: ours and GCN on unseen nodes; of equal worth, the longest first."""
    yield from _every(("ours", "glnn"), "unseen", SEEDS)
    yield from _every(("ours", "glnn"), "seen", SEEDS[:1])
    yield from (EdgeJob(data, method, "unseen", seed) for seed in SEEDS for method in ON_MADE for data in made.RECIPES)
    with_20 = [EdgeJob(data, method, "seen", seed) for seed in SEEDS for method in ON_FEW for data in FEW_LABELS]
    yield from with_20
    yield from _every(("ours-hops", "sign", "appnp"), "unseen", SEEDS)
    yield from _every(("ours-hops", "sign", "appnp"), "seen", SEEDS[:1])
    yield from _every(("ours", "glnn"), "seen", SEEDS[1:])
    settings: tuple[Setting, Setting] = ("unseen", "seen")
    yield from (
        EdgeJob(data, method, setting, seed)
        for seed in SEEDS
        for setting in settings
        for method in ("bgrl", "mlp", *(TRANSDUCTIVE if setting == "seen" else ()))
        for data in HETEROPHILOUS
    )
    yield from _every(("sign", "appnp"), "seen", SEEDS[1:])


def in_order(patterns: Sequence[str]) -> list[EdgeJob]:
    """Return the runs whose name matches one of the patterns, by the first that it matches, then as in `jobs`."""
    places = {job: [fnmatchcase(job.name, pattern) for pattern in patterns] for job in jobs()}
    return sorted((job for job, found in places.items() if any(found)), key=lambda job: places[job].index(True))


def stored(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a folder by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("edges-*.json")}


def outdated(result: Mapping[str, Any]) -> bool:
    """Tell whether a result is of ours, and today's fit might choose another size or another use of neighbours.

    Either it is from before the size was chosen, or today's rules would choose otherwise by the scores that it holds.
    The smallest network would be chosen again, since rules have only become stricter.
    """
    if result["job"]["method"] not in OURS:
        return False
    if "size" not in result:
        return True
    tried = result["sizes"] or []
    if tried and not keeps_its_size(tried, (result["size"]["width"], result["size"]["blocks"])):
        return True
    return best_of(result["neighbours"]["scores"]).in_words != result["neighbours"]["chosen"]


def keeps_its_size(tried: Sequence[Mapping[str, Any]], chosen: tuple[int, int]) -> bool:
    """Tell whether today's rule would choose the size that a fit chose, by the scores that it stored.

    They are means over edges, so whether a gain is certain is not judged again. Earlier rules required that too, and
    were less strict otherwise. So today's rule would reject the larger networks that a fit rejected.
    """
    place = [(score["width"], score["blocks"]) for score in tried].index(chosen)
    best, since = tried[0], 0
    for score in tried[1 : place + 1]:
        if score["rank"] >= FOUND and "cost" not in score:
            return False
        if score["rank"] >= FOUND and is_worth_its_cost(score["rank"], best["rank"], score["cost"] / best["cost"]):
            best, since = score, 0
        else:
            since += 1
        if since == PATIENCE:
            break
    ended = place == 0 or len(tried) - place > PATIENCE or len(tried) == len(SIZES)
    return best is tried[place] and ended


def _every(methods: Sequence[str], setting: Setting, seeds: Sequence[int]) -> list[EdgeJob]:
    found = [EdgeJob(data, method, setting, seed) for seed in seeds for method in methods for data in ALL_SETS]
    return sorted(found, key=lambda job: -job.seconds)


def run(job: EdgeJob, folder: Path, *, n_splits: int = 2, device: str = "cpu") -> dict[str, Any]:
    """Train and measure one job."""
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    task = load_task(folder, job.data, job.setting, job.seed, n_splits, device)
    result = {
        "benchmark": "graphs",
        "protocol": quality.PROTOCOL,
        "job": {**asdict(job), "relation": ""},
        "splits": n_splits,
        "unseen_nodes": len(task.unseen),
        **harness.environment(),
    }
    began = time.perf_counter()
    if job.method in KNOWN:
        result |= quality.METHODS[job.method](task, PlainJob(job.data, job.method, job.setting, job.seed))
    else:
        result |= (NEW.get(job.method) or measure_ours)(task, job)
    return {**result, "seconds": time.perf_counter() - began}


# Ours.


def measure_ours(task: Task, job: EdgeJob) -> dict[str, Any]:
    """Codes with edges, by several classifiers; codes of every length; features alone.

    The classifiers are the logistic probe, of the code alone and joined to averaged features, the probe for few labels
    and an MLP, whose input is the code, alone or with features, or with these and averaged ones.
    """
    device = "cuda" if task.y.device.type == "cuda" else "cpu"
    graph = task.graph()
    model = fit_graph(
        graph, quality.N_COMPONENTS, seed=job.seed, device=device, progress=False, **dict(OURS[job.method])
    )
    codes = codes_with_edges(model, task)
    runs = with_logistic_and_few(task, codes) + with_joined(task, codes)
    code, x = standardised(codes, task.kept), quality.rival_features(task)
    inputs = {"codes": (code,), "codes and raw": (code, x), "codes, raw and averaged": (code, x, averaged(task))}
    runs += quality.with_mlp(task, inputs, seed=job.seed)
    made: dict[str, Any] = {
        "runs": runs,
        "neighbours": model.training["neighbours"],
        "size": asdict(model.encoder),  # type: ignore[call-overload]
        "sizes": model.training.get("sizes"),
        "steps": model.training["steps"],
        "seconds_training": model.training["seconds"] + model.training["alignment_seconds"],
        "lengths": quality.by_length(task, {"with edges": codes}),
    }
    if job.method == "ours":
        own = torch.from_numpy(model.encode(task.x.to("cpu"), normalize=False, batch_size=4096)).to(task.y.device)
        made["alone"] = quality.with_probes(task, own, ("logistic",))
        made["lengths"] += quality.by_length(task, {"features alone": own})
    return made


def codes_with_edges(model: Eigenmap, task: Task) -> Tensor:
    """Codes of the kept nodes in the training graph, and of withheld ones in the whole graph."""
    x, kept = task.x.to("cpu"), task.kept.cpu()
    whole = model.encode(x, edges=task.whole, normalize=False, batch_size=4096)
    codes = torch.from_numpy(whole)
    codes[kept] = torch.from_numpy(model.encode(x[kept], edges=task.matrix, normalize=False, batch_size=4096))
    return codes.to(task.y.device)


def with_logistic_and_few(task: Task, codes: Tensor) -> Runs:
    """The logistic probe, and the probe for few labels, whose pool are the nodes of the training graph."""
    runs = []
    for number, split, share, train in quality.few(task):
        parts = [Labelled(codes[nodes], task.y[nodes]) for nodes in (task.kept[train], task.kept[split.validation])]
        logistic = fit_probe_logistic(*parts)
        probes: dict[str, Classifier] = {
            "logistic": logistic,
            "few": fit_probe_few(*parts, codes[task.kept], logistic),
        }
        for name, probe in probes.items():
            guess = lambda nodes, probe=probe: probe.predict(codes[nodes])  # noqa: E731
            runs.append(quality.scored(task, number, share, train, name, probe.accuracy(*parts[1]), guess))
    return runs


def with_joined(task: Task, codes: Tensor) -> Runs:
    """The logistic probe of the code beside the features of the node averaged over two steps, each of norm 1."""
    parts_of_joined = codes, averaged(task)
    runs = []
    for number, split, share, train in quality.few(task):

        def joined(nodes: Tensor) -> Tensor:
            return torch.cat([F.normalize(part[nodes].float(), dim=1) for part in parts_of_joined], dim=1)

        parts = [Labelled(joined(nodes), task.y[nodes]) for nodes in (task.kept[train], task.kept[split.validation])]
        probe = fit_probe_logistic(*parts)
        guess = lambda nodes, probe=probe: torch.cat([probe.predict(joined(some)) for some in nodes.split(8192)])  # noqa: E731
        runs.append(quality.scored(task, number, share, train, "joined", probe.accuracy(*parts[1]), guess))
    return runs


def averaged(task: Task) -> Tensor:
    """Features averaged over the steps of SIGN."""
    return propagated(task, HOPS)[HOPS]


# Rivals.


def propagated(task: Task, hops: int) -> list[Tensor]:
    """x, S x, S^2 x, ...: over the training graph for the nodes in it, over the whole graph for the others."""
    x = task.x.dense().float() if not isinstance(task.x, Tensor) else task.x
    parts = [x]
    seen, whole = x[task.kept], x
    training, everything = (gcn_operator(matrix, x.device) for matrix in (task.matrix, task.whole))
    for _ in range(hops):
        seen, whole = training @ seen, everything @ whole
        both = whole.clone()
        both[task.kept] = seen
        parts.append(both)
    return parts


def measure_sign(task: Task, job: EdgeJob) -> dict[str, Any]:
    """SIGN: an MLP on features beside their averages; validation labels choose how many."""
    began = time.perf_counter()
    parts = propagated(task, HOPS + 1)
    inputs = {f"{hops} hops": tuple(parts[: hops + 1]) for hops in (1, HOPS, HOPS + 1)}
    runs = quality.with_mlp(task, inputs, seed=job.seed)
    return {"runs": runs, "seconds_training": (time.perf_counter() - began) / len(runs)}


def measure_appnp(task: Task, job: EdgeJob) -> dict[str, Any]:
    """APPNP, its settings chosen on the first split for each share of the labels."""
    x, seen_x = quality.rival_features(task), quality.rival_features(task)[task.kept]
    operator, whole = (gcn_operator(matrix, task.y.device) for matrix in (task.matrix, task.whole))
    chosen: dict[float, appnp.Settings] = {}
    runs, began = [], time.perf_counter()
    for number, split, share, train in quality.few(task):

        def fitted(how: appnp.Settings, train: Tensor = train, split: NodeSplit = split) -> Any:
            given = (task.seen_y, train, split.validation)
            return appnp.fit((seen_x,), operator, *given, n_classes=task.n_classes, how=how, seed=job.seed)

        net, validation, how = mlp.pick([chosen[share]] if share in chosen else appnp.GRID, fitted)
        chosen[share] = how
        guess = torch.full_like(task.y, -1)
        guess[task.kept] = appnp.scores(net, (seen_x,), operator, how).argmax(1)
        if len(task.unseen):
            guess[task.unseen] = appnp.scores(net, (x,), whole, how)[task.unseen].argmax(1)
        made = quality.scored(task, number, share, train, "appnp", validation, guess.__getitem__)
        runs.append({**made, "settings": asdict(how)})
    return {"runs": runs, "seconds_training": (time.perf_counter() - began) / len(runs)}


def measure_glnn(task: Task, job: EdgeJob) -> dict[str, Any]:
    """GLNN: a tuned GCN as teacher, measured too; the student sees features alone."""
    x, seen_x = quality.rival_features(task), quality.rival_features(task)[task.kept]
    operator, whole = (gcn_operator(matrix, task.y.device) for matrix in (task.matrix, task.whole))
    teachers: dict[float, gcn.Settings] = {}
    students: dict[float, glnn.Settings] = {}
    runs, teacher, began = [], [], time.perf_counter()
    for number, split, share, train in quality.few(task):
        given = (task.seen_y, train, split.validation)
        common: dict[str, Any] = {"n_classes": task.n_classes, "seed": job.seed}

        def taught(how: gcn.Settings, given: Any = given, common: Any = common) -> Any:
            return gcn.fit((seen_x,), operator, *given, how=how, **common)

        net, validation, teachers[share] = mlp.pick([teachers[share]] if share in teachers else gcn.GRID, taught)
        scores = gcn.scores(net, (seen_x,), operator)
        guess = torch.full_like(task.y, -1)
        guess[task.kept] = scores.argmax(1)
        if len(task.unseen):
            guess[task.unseen] = gcn.scores(net, (x,), whole)[task.unseen].argmax(1)
        made = quality.scored(task, number, share, train, "gcn", validation, guess.__getitem__)
        teacher.append({**made, "settings": asdict(teachers[share])})
        said = F.log_softmax(scores, dim=1)

        def learned(how: glnn.Settings, given: Any = given, common: Any = common, said: Tensor = said) -> Any:
            return glnn.fit((seen_x,), said, *given, how=how, **common)

        student, validation, students[share] = mlp.pick([students[share]] if share in students else glnn.GRID, learned)
        copied = lambda nodes, student=student: mlp.predict(student, (x,), nodes).argmax(1)  # noqa: E731
        runs.append(quality.scored(task, number, share, train, "glnn", validation, copied))
    return {"runs": runs, "teacher": teacher, "seconds_training": (time.perf_counter() - began) / len(runs)}


NEW: Mapping[str, Callable[[Task, EdgeJob], dict[str, Any]]] = {
    "sign": measure_sign,
    "appnp": measure_appnp,
    "glnn": measure_glnn,
}


def main() -> None:
    """Run one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("run", "sweep"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", choices=(*ALL_SETS, *FEW_LABELS, *made.RECIPES), help="of run")
    parser.add_argument("--method", choices=(*OURS, *NEW, *KNOWN), help="of run")
    parser.add_argument("--setting", choices=get_args(Setting), default="unseen")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument(
        "--seconds", type=float, default=560.0, help="of sweep: begin no job that is likely to end later"
    )
    parser.add_argument("--workers", type=int, default=14, help="of sweep: jobs at a time")
    parser.add_argument("--slower", type=float, default=1.0, help="of sweep: time of a job relative to the estimate")
    parser.add_argument(
        "--only", nargs="+", default=["*"], help="of sweep: names of jobs, the first to match go first; * matches any"
    )
    parser.add_argument("--again", action="store_true", help="of sweep: also jobs with a result in the repository")
    given = parser.parse_args()
    device = given.device if given.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if given.verb == "sweep":
        work = partial(run, folder=given.data, n_splits=given.splits, device=device)
        finished = {} if given.again else stored(RESULTS)
        todo = [job for job in in_order(given.only) if job.name not in finished or outdated(finished[job.name])]
        tasks = [pool.Task(job.name, job, given.slower * job.seconds) for job in todo]
        left = pool.sweep(tasks, work, given.results, seconds=given.seconds, workers=given.workers)
        print(f"{len(tasks) - len(left)} of {len(tasks)} jobs have their results")
        return
    if given.set is None or given.method is None:
        parser.error("run needs --set and --method")
    job = EdgeJob(given.set, given.method, given.setting, given.seed)
    result = run(job, given.data, n_splits=given.splits, device=device)
    harness.write(given.results / f"{job.name}.json", result)
    print(quality.summary(result))


if __name__ == "__main__":
    main()
