"""Jobs and pages of the study."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import DOCS
from benchmarks.common.pages import renewed
from benchmarks.common.plan import Job, Place, planned
from benchmarks.graphs import RESULTS, edge_cost, edge_tables, edges, made, plan
from benchmarks.graphs.jobs import COST
from benchmarks.graphs.jobs import Job as Run
from benchmarks.graphs.tasks import PUBLISHED

SIDE_BY_SIDE = 8
WRITTEN_BY = "written by python -m benchmarks graphs page"
SPECTRA = ("amazon_computers", "planetoid_cora", "bipartite-ring")


def jobs(place: Place) -> Iterator[Job]:
    """Every run of the plan, then spectra, short runs of other defaults, and the large graph."""
    finished = plan.Finished(RESULTS, place.results)
    settled = plan.settled_sets(finished)
    for run, stage in planned(plan.STAGES, finished).items():
        yield Job(
            run.name,
            "graphs.quality",
            words_of(run),
            seconds=plan.seconds(run, place.device),
            stage=stage,
            needs=(f"{run.data}.npz",),
            alone=run.method == COST,
            done=run in finished,
            waits_for="" if run in finished or plan.can_begin(run, settled) else "its relation",
        )
    current = {name for name, result in finished.results.items() if not _outdated(name, result)}
    yield from (replace(job, done=job.name in current) for job in with_edges(place.device))
    yield from (replace(job, done=job.name in current) for job in edge_costs(place.device))
    yield from (replace(job, done=finished.has(job.name)) for job in spectra())
    yield from short_runs(finished)
    words = ("--seconds", "240", "--json", "{results}/graphs-scale.json")
    done = finished.has("graphs-scale")
    yield Job("graphs-scale", "graphs.scale", words, 200, stage="scale", gpu=True, alone=True, done=done)


def _outdated(name: str, result: dict[str, Any]) -> bool:
    """Tell whether a result of ours is of a network whose size would not be chosen any more."""
    if name.startswith("edge-cost-"):
        return "blocks" not in result
    return name.startswith("edges-") and edges.outdated(result)


def words_of(run: Run) -> tuple[str, ...]:
    """The options that describe a run."""
    where = ("--data", "{data}", "--results", "{results}", "--device", "{device}", "--set", run.data)
    if run.method == COST:
        return ("cost", *where)
    values = {"method": run.method, "setting": run.setting, "seed": run.seed, "relation": run.relation}
    words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
    return ("run", *where, *words, *(["--screen"] if run.screening else []))


def with_edges(device: str) -> Iterator[Job]:
    """Ours with edges at inference beside rivals that use them."""
    for run in edges.jobs():
        values = {"set": run.data, "method": run.method, "setting": run.setting, "seed": run.seed}
        words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
        where = ("run", "--data", "{data}", "--results", "{results}", "--device", "{device}")
        seconds = plan.START + run.seconds * (plan.ON_A_CPU if device == "cpu" else 1.0)
        needs = () if run.data in made.RECIPES else (f"{run.data.removesuffix(PUBLISHED)}.npz",)
        yield Job(run.name, "graphs.edges", (*where, *words), seconds, "edges", needs)


def edge_costs(device: str) -> Iterator[Job]:
    """Cost of our default model with edges beside a GCN; one at a time, since it is timed.

    On a machine without a GPU the results have names of their own.
    """
    on_cpu = device == "cpu"
    for data in edge_tables.COSTS:
        made_here = data not in edges.ALL_SETS
        needs = () if made_here else (f"{data}.npz",)
        name = f"edge-cost-{data}{edge_tables.ON_CPU_ALONE if on_cpu else ''}"
        words = ("--data", "{data}", "--set", data, "--json", f"{{results}}/{name}.json")
        further = ("--compile",) if data in ("debian_bookworm", "products") and not on_cpu else ()
        if made_here and on_cpu:
            further = ("--scale", f"{edge_cost.ON_CPU:g}")
        yield Job(
            name,
            "graphs.edge_cost",
            (*words, *further),
            40,
            "edge-cost",
            needs,
            gpu=made_here and not on_cpu,
            alone=True,
        )


def spectra() -> Iterator[Job]:
    """Learned spectra against an eigensolver."""
    for graph in SPECTRA:
        file = f"{graph}.npz"
        made = graph == "bipartite-ring"
        words = ("spectrum", "--indefinite" if made else f"{{data}}/{file}", "--folder", "{results}")
        needs = () if made else (file,)
        yield Job(f"graphs-spectrum-{graph}", "graphs.spectrum", words, 300, stage="spectra", needs=needs, alone=True)


def short_runs(finished: plan.Finished) -> Iterator[Job]:
    """Other defaults in short runs on a CPU."""
    from benchmarks.graphs import defaults

    for name, study in defaults.STUDIES.items():
        job = study.file.removesuffix(".json")
        left = sum(1 for _ in defaults.missing(study, finished.rows(job), list(study.steps)))
        words = ("--study", name, "--data", "{data}", "--folder", "{results}")
        needs = tuple(f"{data}.npz" for data in study.steps)
        yield Job(job, "graphs.defaults", words, 40.0 * left, "defaults", needs, alone=True, done=left == 0)


def pages() -> Iterator[tuple[Path, str]]:
    """docs/graph-benchmarks.md, the tables of docs/graphs.md, and what docs/results.md says of graphs."""
    from benchmarks.graphs import defaults, neighbours, spectrum, tables, words

    yield DOCS / "graph-benchmarks.md", tables.page(RESULTS)
    path = DOCS / "graphs.md"
    text = path.read_text(encoding="utf-8")
    for name, study in defaults.STUDIES.items():
        text = renewed(text, f"{name}: {WRITTEN_BY}", defaults.show(study))
    text = renewed(text, f"neighbours: {WRITTEN_BY}", neighbours.stored_table(RESULTS / "neighbours.json"))
    yield path, renewed(text, f"spectra: {WRITTEN_BY}", spectrum.tables(RESULTS))
    path = DOCS / "results.md"
    yield path, renewed(path.read_text(encoding="utf-8"), f"graphs: {WRITTEN_BY}", words.in_short(plan.Finished()))
