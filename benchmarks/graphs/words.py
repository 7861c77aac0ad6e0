"""Findings of the study of node codes in sentences, computed from the results so that they stay true."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.common.pages import NOT_RUN, table
from benchmarks.graphs.edge_goals import Goal, counted
from benchmarks.graphs.edge_tables import GCN, HOPS, OURS, RIVALS, Row, results, values
from benchmarks.graphs.edges import ALL_SETS, outdated
from benchmarks.graphs.edges import OURS as OURS_WAYS
from benchmarks.graphs.goals import best
from benchmarks.graphs.jobs import SETS, Setting
from benchmarks.graphs.plan import Finished
from eigenmap.core.words import count

FEW, ALL = 0.01, 1.0
"""Shares of the training labels."""

SHORT_CODES = (
    "Leading eigenfunctions of a graph often live on a [handful of nodes](graphs.md#why-these-defaults). Short codes "
    "in the strict order of eigenvalues lose accuracy, and whitened ones do at full length. So codes are rotated with "
    "a ridge: they are then close to the principal components of what the two ends of an edge share."
)
COSTS = (
    "Inference without the graph is not always cheaper: a GCN classifies all nodes by a product with a sparse matrix"
)
LARGE = (
    "On the large synthetic graph, a GCN on ten sampled neighbours per layer is cheaper than a perceptron of the "
    "paper's depth."
)
POSITION = (
    "The hundred features of a Debian package say little about its place among its dependencies. Methods that store "
    "a position per node, or look at its neighbours, know more."
)
MEMORISED = (
    "From packages seen in training to others, ours loses the positions that a wide network memorises; an MLP does not."
)


def findings(finished: Finished, goals: Sequence[Goal] = ()) -> Iterator[str]:
    yield "## In short"
    yield (
        f"New nodes with their edges: ours ({_default(finished)}) is {_count_ahead(finished)}, with all training "
        f"labels. From features alone it is {_count_alone(finished)}. Accuracy of ours minus that of the GCN, in "
        "points; the GCN always sees the edges:"
    )
    kinds: Mapping[str, Callable[[float], Beside]] = {
        "new nodes, with their edges": lambda share: _beside_gcn_with_edges(finished, share, ALL_SETS),
        "new nodes, features alone": lambda share: _beside_gcn(finished, "unseen", share),
        "nodes of the training graph, features alone": lambda share: _beside_gcn(finished, "seen", share),
    }
    nothing = None, None
    yield table(
        ["ours on", "labels", *ALL_SETS.values()],
        [
            [kind, f"{100 * share:g} %", *(_difference(*found.get(label, nothing)) for label in ALL_SETS.values())]
            for kind, beside in kinds.items()
            for share in (ALL, FEW)
            for found in [beside(share)]
        ],
    )
    said = [
        *counted(goals),
        *_strongest(finished),
        *_averaged_features(finished),
        *_debian(finished),
        SHORT_CODES,
        *_costs(finished),
        "Differences are between means. The tables give the spread of the runs (±). With 1 % of the labels, runs "
        "differ by whole points.",
    ]
    yield "\n".join(f"- {line}" for line in said)


def in_short(finished: Finished) -> str:
    """Return the table of docs/results.md on graphs."""
    rows = {
        "new nodes, from features alone": _beside_gcn(finished, "unseen", ALL),
        "new nodes, given their edges as the GCN is": _beside_gcn_with_edges(finished, ALL),
        "nodes of the training graph, from features alone": _beside_gcn(finished, "seen", ALL),
    }
    said = (
        "Accuracy beside a tuned GCN, in points: a minus means that ours is behind. All training labels, means of "
        "three seeds."
    )
    cells = [[name, *(_difference(*pairs[label]) for label in SETS.values())] for name, pairs in rows.items()]
    return f"{textwrap.fill(said, 120)}\n\n{table(['codes of', *SETS.values()], cells)}"


def _difference(ours: float | None, gcn: float | None) -> str:
    return NOT_RUN if ours is None or gcn is None else f"{ours - gcn:+.1f}"


Beside = Mapping[str, tuple[float | None, float | None]]
"""Accuracy of ours and of a tuned GCN by set, in percent."""


def _beside_gcn(finished: Finished, setting: Setting, share: float) -> Beside:
    return {
        label: (
            best(finished, data, finished.form(data), setting, share),
            best(finished, data, "gcn", setting, share),
        )
        for data, label in SETS.items()
    }


def _beside_gcn_with_edges(finished: Finished, share: float, sets: Mapping[str, str] = SETS) -> Beside:
    """The same for new nodes, if ours is given their edges too."""
    return {
        label: (_new(finished, data, OURS, share), _new(finished, data, GCN, share)) for data, label in sets.items()
    }


def _new(finished: Finished, data: str, row: Row, share: float = ALL) -> float | None:
    """Return the accuracy on new nodes."""
    found = values(finished, data, row, "unseen", share)
    return mean(found) if found else None


def _default(finished: Finished) -> str:
    """Say of which default the results on new nodes are."""
    earlier = [
        label for data, label in ALL_SETS.items() if any(map(outdated, results(finished, data, "ours", "unseen")))
    ]
    return "the library's default" + (f"; some runs on {_joined(earlier)} are of an earlier one" if earlier else "")


def _count_ahead(finished: Finished) -> str:
    """Return on how many graphs ours is at or above a tuned GCN, given the edges of new nodes."""
    known = _known(_beside_gcn_with_edges(finished, ALL, ALL_SETS))
    return f"at or above a tuned GCN on {sum(ours >= gcn for ours, gcn in known)} of {count(len(known), 'graph')}"


def _count_alone(finished: Finished) -> str:
    """Return on how many graphs ours is behind it, if it does not see the edges of new nodes."""
    known = _known(_beside_gcn(finished, "unseen", ALL))
    return f"behind on {sum(ours < gcn for ours, gcn in known)} of {len(known)}"


def _known(pairs: Beside) -> list[tuple[float, float]]:
    return [(ours, gcn) for ours, gcn in pairs.values() if ours is not None and gcn is not None]


def _strongest(finished: Finished) -> Iterator[str]:
    """Say where any other method is ahead of ours on new nodes with edges, and which."""
    ahead, known = [], 0
    for data, label in ALL_SETS.items():
        ours = _new(finished, data, OURS)
        scores = {row.label: score for row in RIVALS if (score := _new(finished, data, row)) is not None}
        if ours is None or not scores:
            continue
        known += 1
        name = max(scores, key=lambda label: scores[label])
        if scores[name] > ours:
            ahead.append(f"{label} ({name} {scores[name]:.1f}, ours {ours:.1f})")
    if ahead:
        yield f"With edges, the best other method is ahead of ours on {len(ahead)} of {known} graphs: {_joined(ahead)}."
    elif known:
        yield "With edges, no other method is ahead of ours."


def _averaged_features(finished: Finished) -> Iterator[str]:
    """Compare training on averaged features with averaged codes alone, where both have results of the same seeds."""
    changes = []
    for data, label in ALL_SETS.items():
        own, averaged = (
            {made["job"]["seed"] for made in results(finished, data, name, "unseen")} for name in OURS_WAYS
        )
        both = own & averaged
        hops, ours = (values(finished, data, row, "unseen", ALL, both) for row in (HOPS, OURS))
        if hops and ours:
            changes.append(f"{label} {mean(hops) - mean(ours):+.1f} ({count(len(both), 'seed')})")
    if changes:
        yield (
            "Training that also sees features averaged over neighbours (`feature_hops=2`) changes these accuracies, "
            f"with all training labels, by, in points: {', '.join(changes)}."
        )


def _debian(finished: Finished) -> Iterator[str]:
    """Report ours and its rivals on the set whose features say least about position in the graph."""
    data = "debian_bookworm"
    methods: Mapping[str, str | None] = {
        "ours": finished.form(data),
        "MLP": "mlp",
        "GCN": "gcn",
        "BGRL": "bgrl",
        "Laplacian + MLP": "laplacian",
        "node2vec + MLP": "node2vec",
    }
    settings: Mapping[Setting, str] = {"seen": "All packages", "unseen": "Packages not in the training graph"}
    said = []
    for setting, words in settings.items():
        found = {name: best(finished, data, method, setting, ALL) for name, method in methods.items()}
        if found["ours"] is None:
            yield f"{POSITION} Ours is {NOT_RUN}."
            return
        known = sorted(((score, name) for name, score in found.items() if score is not None), reverse=True)
        said.append(f"{words}: {', '.join(f'{name} {score:.1f}' for score, name in known)}")
    yield f"{POSITION} In percent, with all training labels. {'. '.join(said)}."
    yield MEMORISED


def _costs(finished: Finished) -> Iterator[str]:
    """Compare the time of classification with a GCN's: all test nodes at once, and a single node."""
    measured = {data: result["timings"] for data in SETS if (result := finished.results.get(f"cost-{data}"))}
    if not measured:
        yield f"{COSTS}; costs {NOT_RUN}."
        return

    def times(data: str, row: Mapping[str, Any], what: str) -> float:
        """Return the time relative to the fastest GCN on the same device."""
        rivals = [it for it in measured[data] if it["device"] == row["device"] and it["method"].startswith("GCN")]
        return float(row[what] / min(rival[what] for rival in rivals))

    ours = [(data, row) for data, rows in measured.items() for row in rows if row["method"].startswith("ours")]
    said = []
    for device, place in (("cuda", "a GPU"), ("cpu", "a CPU")):
        here = [(times(data, row, "all_test_nodes_s"), data, row) for data, row in ours if row["device"] == device]
        most, data, row = max(here, key=lambda found: found[0])
        where = f"{SETS[data]}, {row['method'].removeprefix('ours, ')}"
        least = min(found[0] for found in here)
        said.append(f"on {place} {least:.1f} to {most:.3g} times ({where})")
    alone = max(times(data, row, "one_node_s") for data, row in ours)
    yield f"{COSTS}. Time of ours for all nodes, as a multiple of a GCN's of two layers: {'; '.join(said)}."
    yield f"A single node takes at most {alone:.2f} times as long as with the faster of two ways to run a GCN. {LARGE}"


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
