"""Comparison of the search speed of two versions of eigenmap, in one run.

    python -m benchmarks.search.versions 6ffb7eb [--items 1000000] [--rounds 5]

The older version comes from git; the newer one is the working tree. Each round runs both in separate processes, one
after the other, on the same index on disk, written by the older version. The fastest round of each search counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.common import harness
from benchmarks.search import RESULTS

FEATURES = 64
FILE = "versions-of-search"

DATA = """
import numpy as np

def codes(count, seed):
    rng = np.random.default_rng(seed)
    spread = 0.95 ** np.arange({features}, dtype=np.float32)
    return rng.standard_normal((count, {features}), dtype=np.float32) * spread
"""

MAKE = """
import sys
from eigenmap.search import CodeIndex
path, count, backend = sys.argv[1], int(sys.argv[2]), sys.argv[3]
index = CodeIndex({features}, where=path, backend=backend)
for start in range(0, count, 100_000):
    stop = min(start + 100_000, count)
    index.add(codes(stop - start, start + 1), range(start, stop))
index.search(codes(1, 0), top=10)
"""

MEASURE = """
import json, statistics, sys, time
from eigenmap.search import CodeIndex
queries = codes(100, 0)

def seconds(ask, times):
    ask()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)

found = {{}}
flat = CodeIndex.open(sys.argv[1])
one = queries[:1]
found["one query, all features"] = seconds(lambda: flat.search(one, top=10), 15)
found["one query, 16 features"] = seconds(lambda: flat.search(one, top=10, dim=16), 15)
found["one query, funnel 16 -> 1,000 -> all"] = seconds(
    lambda: flat.search(one, top=10, shortlist_dim=16, shortlist=1000), 15
)
found["100 queries, all features"] = seconds(lambda: flat.search(queries, top=10), 3)
found["100 queries, funnel 16 -> 1,000 -> all"] = seconds(
    lambda: flat.search(queries, top=10, shortlist_dim=16, shortlist=1000), 3
)
approximate = CodeIndex.open(sys.argv[2])
found["one query, IVF, then exact"] = seconds(lambda: approximate.search(one, top=10), 50)
found["100 queries, IVF, then exact"] = seconds(lambda: approximate.search(queries, top=10), 5)
print(json.dumps(found))
"""


def run(source: Path, program: str, *words: str) -> str:
    """Run a program with the eigenmap of this source tree."""
    environment = {**os.environ, "PYTHONPATH": str(source)}
    code = (DATA + program).format(features=FEATURES)
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout


def compare(old: Path, new: Path, items: int, rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of every search under both versions, and their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        places = [f"{folder}/{backend}.index" for backend in ("flat", "faiss")]
        for place, backend in zip(places, ("flat", "faiss"), strict=True):
            run(old, MAKE, place, str(items), backend)
        taken: dict[str, list[dict[str, float]]] = {"before": [], "after": []}
        for round in range(rounds):
            for name, source in sorted({"before": old, "after": new}.items(), reverse=round % 2 == 0):
                taken[name].append(json.loads(run(source, MEASURE, *places)))
                print(f"round {round + 1} of {rounds}: {name}", flush=True)
    return {
        search: {
            **{name: min(each[search] for each in runs) for name, runs in taken.items()},
            "ratio": min(each[search] for each in taken["before"]) / min(each[search] for each in taken["after"]),
            "ratio_of_medians": statistics.median(each[search] for each in taken["before"])
            / statistics.median(each[search] for each in taken["after"]),
        }
        for search in taken["before"][0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="the commit of the older version")
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=RESULTS, help="result file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "old"
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "--quiet", tree, given.old], check=True)
        try:
            rows = compare(tree / "src", ROOT / "src", given.items, given.rounds)
        finally:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    protocol = {"items": given.items, "features": FEATURES, "rounds": given.rounds, "old": given.old}
    result: dict[str, Any] = {"benchmark": "search-versions", "protocol": protocol, "rows": rows}
    harness.write(given.folder / f"{FILE}.json", result | harness.environment())
    print(f"{'milliseconds':40} {'before':>9} {'after':>9} {'speed':>7}")
    for search, row in rows.items():
        print(f"{search:40} {1e3 * row['before']:9.2f} {1e3 * row['after']:9.2f} {row['ratio']:6.2f}x")


if __name__ == "__main__":
    main()
