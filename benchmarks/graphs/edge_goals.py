"""Goals of codes with edges, compared with the results: each is met or missed, with what was tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.common.pages import NOT_RUN
from benchmarks.graphs import edges, growth
from benchmarks.graphs.edge_cost import WAYS
from benchmarks.graphs.edge_tables import (
    ALONE,
    ALONE_COST,
    GCN,
    NODE2VEC,
    OURS,
    STORED_COST,
    cost_ratio,
    costs,
    devices_of,
    fastest,
    mean_accuracy,
    results,
    with_way,
)
from benchmarks.graphs.goals import best, scores
from benchmarks.graphs.jobs import SETS, SHARES, Job
from benchmarks.graphs.plan import SEEDS, Finished
from benchmarks.graphs.tasks import HETEROPHILOUS
from eigenmap.core.words import count

TIMES_GCN, SHARE_OF_SAMPLED = 3.0, 0.1
"""Goals: all nodes take at most so many times a full-batch GCN, one node at most this share of a sampled GCN."""
LEAST = 0.5
"""Points that codes with edges may be below features alone."""
SHORT, WITHIN = 8, 3.0
"""Goal: codes of so many features of Computers lose at most so many points."""
DEBIAN, COMPUTERS = "debian_bookworm", "amazon_computers"
GCN_GOAL, WHERE = "new nodes given their edges", "in the table of costs below"
PLACES: Mapping[str, str] = {"cuda": "a GPU", "cpu": "a CPU"}
SMALLER = (
    "*New nodes without edges*: the default takes the smallest network that held-out edges justify, which costs "
    "accuracy where features are few. Each table of accuracy below names the settings that are better there."
)
COST_TRIED = (
    "*Cost*: a network no larger than held-out edges ask for, half precision, compiled layers, batch normalisation "
    "folded into the layers, a sparse first layer, and few nodes in a pass on a CPU. PageRank takes ten products with "
    "the matrix of the graph, a GCN two. A single node takes about a dozen small operations; starting them costs more "
    "than their arithmetic."
)
NOT_TRIED = "*Rivals*: GraphMAE2 was not run. Of methods that train a graph network without labels, BGRL was."


class Goal(NamedTuple):
    """A goal in full and in a few words, whether it is met (None: not run), and the figures behind that."""

    name: str
    short: str
    met: bool | None
    figures: str = ""

    @property
    def line(self) -> str:
        """The goal in one line."""
        verdict = NOT_RUN if self.met is None else "yes" if self.met else "missed"
        return f"{self.name}: {verdict}{f' ({self.figures})' if self.figures else ''}."


def edge_goals(finished: Finished, folder: Path) -> Iterator[str]:
    """Every goal, those that are missed first, and what was tried."""
    found = every_goal(finished, folder)
    if not found:
        return
    yield "## The goals of codes with edges"
    yield "\n".join(f"- {goal.line}" for goal in sorted(found, key=lambda goal: (False, True, None).index(goal.met)))
    tried = [_debian_tried(finished), _short_tried(finished), SMALLER, COST_TRIED, NOT_TRIED]
    yield "What was tried to meet them:"
    yield "\n".join(f"- {line}" for line in tried if line)


def every_goal(finished: Finished, folder: Path) -> list[Goal]:
    """Return all goals; none without a result of codes with edges."""
    if not any(name.startswith("edges-") for name in finished.results):
        return []
    return [
        _above_gcn(finished),
        *(_not_below(finished, data, edges.ALL_SETS[data]) for data in HETEROPHILOUS),
        _as_before(finished),
        _above_node2vec(finished),
        *_short_codes(finished),
        *_cheap(finished),
        *_large(finished, folder),
    ]


def counted(found: Sequence[Goal]) -> Iterator[str]:
    """Say how many goals are met, and which are not."""
    known = [goal for goal in found if goal.met is not None]
    if not known:
        return
    missed = list(dict.fromkeys(goal.short for goal in known if not goal.met))
    met = sum(bool(goal.met) for goal in known)
    said = f"Of {count(len(known), 'goal')} of codes with edges, {met} {'is' if met == 1 else 'are'} met."
    yield f"{said} Missed, at least in part: {', '.join(missed)}." if missed else said


def _above_gcn(finished: Finished) -> Goal:
    goal = "New nodes given their edges, all labels, at or above the tuned GCN on all five graphs, above on four"
    pairs = {data: [mean_accuracy(finished, data, row, "unseen", 1.0) for row in (OURS, GCN)] for data in SETS}
    known = {data: (a, b) for data, (a, b) in pairs.items() if a is not None and b is not None}
    if len(known) < len(SETS):
        return Goal(goal, GCN_GOAL, None)
    above, below = sum(a > b for a, b in known.values()), sum(a < b for a, b in known.values())
    each = ", ".join(f"{SETS[data]} {a:.1f} against {b:.1f}" for data, (a, b) in known.items())
    return Goal(goal, GCN_GOAL, above >= 4 and below == 0, each)


def _not_below(finished: Finished, data: str, name: str) -> Goal:
    """Whether averaging is off, or does no harm, by the same probe of both codes."""
    logistic = OURS._replace(heads=("logistic",))
    a, b = (mean_accuracy(finished, data, row, "unseen", 1.0) for row in (logistic, ALONE))
    goal = f"{name}, new nodes: codes with edges at most {LEAST:g} points below features alone"
    short = f"edges do no harm on {name}"
    if a is None or b is None:
        return Goal(goal, short, None)
    ways = {result["neighbours"]["chosen"] for result in results(finished, data, "ours", "unseen")}
    return Goal(goal, short, a >= b - LEAST, f"{a:.1f} against {b:.1f}; chosen: {', '.join(sorted(ways))}")


def _as_before(finished: Finished) -> Goal:
    """Today's default without edges, beside the settings that validation labels chose before it was cheap."""
    goal = (
        f"New nodes without edges, logistic probe: the default fit at most {LEAST:g} points below the settings that "
        "validation labels had chosen before"
    )
    short = "new nodes without edges as before"
    now = {data: mean_accuracy(finished, data, ALONE, "unseen", 1.0) for data in SETS}
    before = {data: scores(finished, data, form, "unseen", 1.0) for data in SETS if (form := finished.form(data))}
    known = {
        data: (a, mean(before[data]["logistic"]))
        for data, a in now.items()
        if a is not None and "logistic" in before.get(data, {})
    }
    if len(known) < len(SETS):
        return Goal(goal, short, None)
    each = ", ".join(f"{SETS[data]} {a:.1f} against {b:.1f}" for data, (a, b) in known.items())
    return Goal(goal, short, all(a >= b - LEAST for a, b in known.values()), each)


def _above_node2vec(finished: Finished) -> Goal:
    goal = "Debian, nodes of the training graph, above node2vec + MLP at every share of labels"
    ours, rival = (
        [mean_accuracy(finished, DEBIAN, row, "seen", share) for share in SHARES] for row in (OURS, NODE2VEC)
    )
    pairs = [(a, b) for a, b in zip(ours, rival, strict=True) if a is not None and b is not None]
    short = "Debian above node2vec"
    if len(pairs) < len(SHARES):
        return Goal(goal, short, None)
    each = [f"{100 * share:g} %: {a:.1f} against {b:.1f}" for share, (a, b) in zip(SHARES, pairs, strict=True)]
    return Goal(goal, short, all(a > b for a, b in pairs), ", ".join(each))


def _short_codes(finished: Finished) -> Iterator[Goal]:
    """Eight features of Computers against all, logistic probe, with edges and without."""
    rows = [row for made in results(finished, COMPUTERS, "ours", "seen") for row in made.get("lengths", [])]
    goal = f"Computers, codes of {SHORT} features within {WITHIN:g} points of full length"
    few = f"{SHORT} features of Computers"
    for code in dict.fromkeys(row["code"] for row in rows):
        short, whole = _cut([row for row in rows if row["code"] == code])
        yield Goal(f"{goal}, {code}", few, whole - short <= WITHIN, f"{short:.1f} of {whole:.1f}, logistic probe")
    if not rows:
        yield Goal(goal, few, None)


def _cut(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the accuracy in percent at the short and at the full length."""
    full = max(row["dim"] for row in rows)
    short, whole = (100 * mean(row["accuracy"] for row in rows if row["dim"] == dim) for dim in (SHORT, full))
    return short, whole


def _cheap(finished: Finished) -> Iterator[Goal]:
    """Time and memory of all nodes, and time of one node, on a GPU and on a CPU."""
    found = costs(finished)
    for device in devices_of([row for timings in found.values() for row in timings]):
        place = PLACES[device]
        memory = ", with no more working memory" if device == "cuda" else ""
        ways = {"features alone": ALONE_COST, **{way.in_words: with_way(way) for way in WAYS}}
        every = {
            name: [_all_nodes(timings, device, begins) for timings in found.values()] for name, begins in ways.items()
        }
        yield _on_graphs(
            f"costs on {place}",
            f"All nodes on {place} in at most {TIMES_GCN:g} times a full-batch GCN's time{memory}",
            every,
        )
        ones = {"features alone": ALONE_COST, "with edges": STORED_COST}
        each = {
            name: [_one_node(timings, device, begins) for timings in found.values()] for name, begins in ones.items()
        }
        yield _on_graphs(
            f"costs on {place}", f"One node on {place} in at most {SHARE_OF_SAMPLED:g} of a sampled GCN's time", each
        )


def _on_graphs(short: str, goal: str, met: Mapping[str, Sequence[bool | None]]) -> Goal:
    """Return a goal that is met if it is on all graphs that have results."""
    known = {name: [value for value in values if value is not None] for name, values in met.items()}
    each = [f"{name} on {sum(values)} of {count(len(values), 'graph')}" for name, values in known.items() if values]
    return Goal(goal, short, all(all(values) for values in known.values()) if each else None, "; ".join(each))


def _all_nodes(timings: Sequence[Mapping[str, Any]], device: str, begins: str) -> bool | None:
    full, row = (fastest(timings, device, name, "all_nodes_s") for name in ("GCN, full", begins))
    times, memory = cost_ratio(row, full, "all_nodes_s"), cost_ratio(row, full, "working_mb")
    return None if times is None else times <= TIMES_GCN and (memory is None or memory <= 1)


def _one_node(timings: Sequence[Mapping[str, Any]], device: str, begins: str) -> bool | None:
    sampled, row = (fastest(timings, device, name, "one_node_s") for name in ("GCN, 10", begins))
    share = cost_ratio(row, sampled, "one_node_s")
    return None if share is None else share <= SHARE_OF_SAMPLED


def _large(finished: Finished, folder: Path) -> Iterator[Goal]:
    """The synthetic graph, and growing ones."""
    devices = devices_of(costs(finished).get("products", []))
    goal = "Costs of every way on a synthetic graph of OGBN-Products' size, on a GPU and on a CPU"
    measured = {"cuda", "cpu"} <= set(devices)
    yield Goal(goal, "a graph of OGBN-Products' size", True if measured else None, WHERE if measured else "")
    for what, file in (("Fits", growth.FILE), ("Codes with edges", growth.EMBEDDED)):
        grown = growth.growth_of(folder / file)
        if grown is not None:
            size = f"{grown.most / 1e6:.0f} million edges"
            goal = f"{what} of graphs of up to {size}: time and memory grow at most linearly"
            yield Goal(goal, f"growth of {what.lower()}", grown.linear)


def _debian_tried(finished: Finished) -> str:
    """Say what was tried on the set whose features say least about position in the graph."""
    alone = [best(finished, DEBIAN, finished.form(DEBIAN), "seen", share) for share in SHARES]
    if any(value is None for value in alone):
        return ""
    each = ", ".join(f"{value:.1f} at {100 * share:g} %" for share, value in zip(SHARES, alone, strict=True))
    return (
        "*Debian*: pairs from longer walks, a uniform start, widths up to 2,048, two objectives, all chosen on "
        f"validation labels. By the best of them, codes from features alone have {each} of the labels. With edges, the "
        "classifier may also see the raw and averaged features of a node. node2vec stores a position for each package, "
        "which a new one does not have."
    )


def _short_tried(finished: Finished) -> str:
    """Say what was tried for short codes of Computers."""
    jobs = [job for seed in SEEDS for job in finished.ours(COMPUTERS, "seen", seed)]
    rows = [row for job in jobs for row in finished.results.get(job.name, {}).get("lengths", [])]
    if not rows:
        return ""
    kinds = dict.fromkeys((row["code"], row["probe"]) for row in rows)
    cuts = {kind: _cut([row for row in rows if (row["code"], row["probe"]) == kind]) for kind in kinds}
    code, probe = max(cuts, key=lambda kind: cuts[kind][0])
    short, whole = cuts[code, probe]
    rivals = [finished.results.get(Job(COMPUTERS, "bgrl", seed=seed).name, {}) for seed in SEEDS]
    theirs = [row for made in rivals for row in made.get("lengths", []) if row["code"] == "PCA"]
    beside = ""
    if theirs:
        first, all_of_it = _cut(theirs)
        beside = f" The same cut of BGRL's codes: {first:.1f} of {all_of_it:.1f}."
    return (
        "*Eight features of Computers*: three orders of the features and two classifiers. The best have "
        f"{short:.1f} of {whole:.1f} ({code}, {'MLP' if probe == 'mlp' else 'logistic probe'}). The set has ten "
        f"classes, and eight directions are few for them.{beside}"
    )
