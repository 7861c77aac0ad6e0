"""What the study of node codes found, in sentences: comparisons are computed, so that no word outlives its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graph_goals import best
from graph_jobs import SETS, Setting
from graph_plan import Finished
from pages import NOT_RUN

FEW, ALL = 0.01, 1.0
"""Shares of the training labels."""

SHORT_CODES = (
    "Leading eigenfunctions of a graph often live on a handful of nodes (docs/graphs.md): short codes in the strict "
    "order of eigenvalues lose accuracy, and so do whitened ones at full length. Codes are therefore rotated with a "
    "ridge, under which they are close to the principal components of what the two ends of an edge share."
)
COSTS = (
    "No graph at inference does not mean cheaper for all nodes at once, where one multiplication by a sparse matrix "
    "serves everybody: on the card a GCN of two layers is as fast as ours or several times faster, on a CPU it goes "
    "either way. A single node is cheaper from its features on all five sets; on the large synthetic graph a GCN on "
    "ten sampled neighbours a layer is cheaper than a perceptron of the paper's shape."
)
POSITION = (
    "Debian: a package's hundred features say little of where it stands among its dependencies. Methods that store a "
    "position for each node, or look at its neighbours, have more to go on; a wide network learns the positions of the "
    "packages it was trained on by heart, as far as their features tell them apart."
)


def findings(finished: Finished) -> Iterator[str]:
    yield "## In words"
    said = [
        "Nodes of the training graph: ours, from features alone, is with all training labels "
        f"{_against_gcn(finished, 'seen', ALL)}; with 1 % of them {_against_gcn(finished, 'seen', FEW)}.",
        "Nodes that were not there in training, whose edges the GCN is given and ours is not: with all training labels "
        f"ours is {_against_gcn(finished, 'unseen', ALL)}; with 1 % of them {_against_gcn(finished, 'unseen', FEW)}.",
        _debian(finished),
        SHORT_CODES,
        COSTS,
    ]
    yield "\n".join(f"- {line}" for line in said)


def _against_gcn(finished: Finished, setting: Setting, share: float) -> str:
    """Where ours is ahead of a tuned GCN and where it is not, in points."""
    ahead, behind, missing = [], [], []
    for data, label in SETS.items():
        ours, gcn = (best(finished, data, method, setting, share) for method in (finished.form(data), "gcn"))
        if ours is None or gcn is None:
            missing.append(label)
        else:
            (ahead if ours > gcn else behind).append(f"{label} ({ours - gcn:+.1f})")
    parts = {"ahead of a tuned GCN on": ahead, "not ahead on": behind, f"{NOT_RUN} on": missing}
    return ", ".join(f"{words} {_joined(names)}" for words, names in parts.items() if names)


def _debian(finished: Finished) -> str:
    """What ours and its rivals get where position in the graph is hardest to tell from features."""
    data = "debian_bookworm"
    methods: Mapping[str, str | None] = {
        "ours": finished.form(data),
        "MLP": "mlp",
        "GCN": "gcn",
        "Laplacian + MLP": "laplacian",
        "node2vec + MLP": "node2vec",
    }
    settings: Mapping[Setting, str] = {"seen": "all packages", "unseen": "packages that were not there in training"}
    said = []
    for setting, words in settings.items():
        found = {name: best(finished, data, method, setting, ALL) for name, method in methods.items()}
        if found["ours"] is None:
            return f"{POSITION} Ours is {NOT_RUN}."
        known = sorted(((score, name) for name, score in found.items() if score is not None), reverse=True)
        said.append(f"{words} {', '.join(f'{name} {score:.1f}' for score, name in known)}")
    return (
        f"{POSITION} In percent, with all training labels: {'; '.join(said)}. What ours loses from the first to the "
        "second, and an MLP does not, is what it knew by heart."
    )


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
