"""Generator of src/eigenmap/reproduce/ours.json: our main results, for `eigenmap reproduce --list`."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean

from benchmarks.common.plan import Stored
from benchmarks.graphs import RESULTS as GRAPHS
from benchmarks.paper import cost, detection, more_sections, nodes, page, pictures, sections
from benchmarks.vision import RESULTS as VISION
from eigenmap.reproduce.sweeps import table_2_runs, table_3_runs, table_4_runs
from eigenmap.reproduce.table_5 import TITLES

NOT_RUN = "not run"
SHORT = {"paper-unordered": "the paper's unordered", "paper": "ordered"}


def text(folder: Path) -> str:
    """The content of the file."""
    stored = Stored(GRAPHS, VISION, folder)
    ours = {
        "table-1": table_1(stored),
        "table-2": sweep(table_2_runs("small"), stored),
        "table-3": sweep(table_3_runs("small"), stored),
        "table-4": sweep(table_4_runs("small"), stored),
        "table-5": _ran([detection.NAME.format(method=method, seed=0) for method in TITLES], stored),
        "table-6": _ran([nodes.NAME.format(graph=graph, seed=0) for graph in nodes.SETS], stored),
        "tables-7-8": short_codes(stored),
        "test-cost": _ran([cost.NAME], stored),
        "figure-retrieval": curves(stored),
        "figure-grid": _ran([pictures.NAME], stored),
        "figure-excite": _ran([pictures.NAME], stored),
        "figure-optimise": _ran([pictures.NAME], stored),
        "figure-rbf": "drawn by the command: docs/eigenfunctions.md",
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


def sweep(runs: list[sections.Run], stored: Stored) -> str:
    done = sum(sections.found(run, stored) is not None for run in runs)
    return NOT_RUN if done == 0 else f"{done} of {len(runs)} runs: docs/paper.md"


def _ran(names: list[str], stored: Stored) -> str:
    done = sum(stored.has(name) for name in names)
    return NOT_RUN if done == 0 else f"{done} of {len(names)} runs: docs/paper.md"


def short_codes(stored: Stored) -> str:
    """Four features on COCO: the ordered form, PCA of SCL, our code."""
    rows = more_sections.short_rows("coco", "map_over_found@5000", stored, (4,))
    words = {row[0]: row[1].split()[0] for row in rows}
    return (
        f"COCO 96, 4 features: ordered {words[rows[0][0]]}, SCL + PCA {words['SCL + PCA']}, "
        f"our code {words['SCL, our code']}"
    )


def curves(stored: Stored) -> str:
    """Sixteen features on CIFAR-10."""
    metric = "map_over_found@1000"

    def at(method: str, rate: float, code: str) -> str:
        results = more_sections.results_of("cifar10", method, rate, stored)
        values = [row[metric] for each in results for row in each["retrieval"][code] if row["dim"] == 16]
        return f"{mean(values):.3f}" if values else NOT_RUN

    return (
        f"CIFAR-10, 16 features: ordered {at('paper', 0.6, 'projector own order')}, "
        f"unordered {at('paper-unordered', 0.3, 'projector random features')}, "
        f"SCL {at('scl', 0.75, 'projector random features')}"
    )
