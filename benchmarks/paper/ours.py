"""Generator of src/eigenmap/reproduce/ours.json: our main results, for `eigenmap reproduce --list`."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from benchmarks.common.plan import Stored
from benchmarks.graphs import RESULTS as GRAPHS
from benchmarks.paper import code_sections, cost, detection, gaussian, more_sections, nodes, page, pictures, sections
from benchmarks.vision import RESULTS as VISION
from eigenmap.reproduce import METHODS
from eigenmap.reproduce.table_5 import TITLES
from eigenmap.reproduce.table_6 import TITLES as CODES

NOT_RUN = "not run"
SHORT = {"paper-unordered": "the paper's unordered", "paper": "ordered"}


def text(folder: Path) -> str:
    """The content of the file."""
    stored = Stored(GRAPHS, VISION, folder)
    ours = {
        "table-1": table_1(stored),
        "table-2": sweep("batch", sections.by_batch_size(stored)),
        "table-3": sweep("projector", sections.by_projector(stored)),
        "table-4": sweep("epochs", sections.by_epochs(stored)),
        "table-5": detectors(stored),
        "table-6": nodes_of_computers(stored),
        "tables-7-8": short_codes(stored),
        "test-cost": seconds(stored),
        "figure-retrieval": curves(stored),
        "figure-grid": results_by_length(stored),
        "figure-excite": drawn(stored),
        "figure-optimise": drawn(stored),
        "figure-rbf": alignments(stored),
    }
    return json.dumps(ours, indent=2) + "\n"


def table_1(stored: Stored) -> str:
    known = {
        SHORT.get(method, name): 100 * page.linear(method, stored)
        for method, name, _ in page.ROWS
        if method != "simsiam-plain" and page.results_of(method, stored)
    }
    best = sorted(known.items(), key=lambda pair: -pair[1])
    return "CIFAR-10: " + ", ".join(f"{name} {value:.1f}" for name, value in best)


def sweep(setting: str, cells: sections.Cells) -> str:
    """The unordered form at every setting, and its first rival."""
    rival = next(method for method in next(iter(cells.values())) if method != "unordered")
    known = {method: " / ".join(row[method] for row in cells.values()) for method in ("unordered", rival)}
    values = " / ".join(f"{value:,}" for value in cells)
    return f"CIFAR-10: {known['unordered']} at {setting} {values} ({METHODS[rival].title} {known[rival]})"


def detectors(stored: Stored) -> str:
    """AP of boxes and masks from each initialisation."""
    parts = []
    for method, title in TITLES.items():
        result = stored.read(detection.NAME.format(method=method, seed=0))
        best = {} if result is None else result.get("pycocotools", result)
        score = ", ".join(f"{100 * best[kind]['AP']:.1f}" for kind in ("box", "mask") if kind in best)
        parts.append(f"{title} {score or NOT_RUN}")
    return f"generated set, AP of boxes, masks: {'; '.join(parts)}"


def nodes_of_computers(stored: Stored) -> str:
    """The paper's forms and GCN on the first graph, by share of the labels."""
    rows = stored.rows(nodes.NAME.format(graph="amazon_computers", seed=0))
    if not rows:
        return NOT_RUN
    names = {
        "unordered": CODES["unordered"],
        "ordered": CODES["ordered"],
        "our default": CODES["default"],
        "GCN": "GCN",
    }
    known = {
        name: " / ".join(more_sections.accuracy(row) for row in rows if row["method"] == title)
        for name, title in names.items()
    }
    return f"Amazon Computers: {', '.join(f'{name} {figures}' for name, figures in known.items())}"


def seconds(stored: Stored) -> str:
    """Seconds of one node and of all nodes, for both methods."""
    rows = stored.rows(cost.NAME)
    parts = [
        f"{name} {row['one_node_s']:.4f} s for one node, {row['whole_set_s']:.2f} s for all"
        for name, row in zip(("ours", "GCN"), rows, strict=False)
    ]
    return "; ".join(parts) or NOT_RUN


def results_by_length(stored: Stored) -> str:
    """Share of the results of the pictured queries that are in their class."""
    result = stored.read(pictures.NAME)
    if result is None:
        return NOT_RUN
    rows = [row for query in result["results"] for row in query]
    shares = {dim: mean(row["right"] for row in rows if row["dim"] == dim) for dim in (4, 64)}
    return "CIFAR-10, results in the class of the query: " + ", ".join(
        f"{share:.0%} by {dim} features" for dim, share in shares.items()
    )


def drawn(stored: Stored) -> str:
    return "a figure: docs/paper.md" if stored.has(pictures.NAME) else NOT_RUN


def alignments(stored: Stored) -> str:
    """Mean alignment of the functions that the paper's objective learned."""
    results = gaussian.stored_results(stored)
    values = [mean(column) for column in zip(*(result["paper"]["alignment"] for result in results), strict=True)]
    return f"alignment {', '.join(f'{value:.3f}' for value in values)}" if values else NOT_RUN


def short_codes(stored: Stored) -> str:
    """Four features on COCO: the ordered form, PCA of SCL, our code."""
    rows = code_sections.short_rows("coco", "map_over_found@5000", stored, (4,))
    words = {row[0]: row[1].split()[0] for row in rows}
    return (
        f"COCO 96, 4 features: ordered {words[rows[0][0]]}, SCL + PCA {words['SCL + PCA']}, "
        f"our code {words['SCL, our code']}"
    )


def curves(stored: Stored) -> str:
    """Sixteen features on CIFAR-10."""
    metric = "map_over_found@1000"

    def at(method: str, rate: float, code: str) -> str:
        results = code_sections.results_of("cifar10", method, rate, stored)
        values = [row[metric] for each in results for row in each["retrieval"][code] if row["dim"] == 16]
        return f"{mean(values):.3f}" if values else NOT_RUN

    return (
        f"CIFAR-10, 16 features: ordered {at('paper', 0.6, 'projector own order')}, "
        f"unordered {at('paper-unordered', 0.3, 'projector random features')}, "
        f"SCL {at('scl', 0.75, 'projector random features')}"
    )
