"""README, graphs, kernels, databases and method: sentences that quote figures between the tables of these pages."""

from __future__ import annotations

import re
from statistics import mean
from typing import Any

from benchmarks import vectors
from benchmarks.catalogue import RESULTS as CATALOGUE
from benchmarks.catalogue import tables as catalogue
from benchmarks.graphs import defaults, plan
from benchmarks.graphs.jobs import Job
from benchmarks.vectors.found import Found
from benchmarks.vectors.storage import BY_COSINE, BY_PRODUCT, BYTES

from .quote import ROOT, Figures, Quote, result

README = "README.md"
GRAPHS, KERNELS = "docs/graphs.md", "docs/kernels.md"
DATABASES, METHOD = "docs/databases.md", "docs/method.md"


# README


def first_screen() -> Figures:
    means = {key: catalogue.means(catalogue.stored(CATALOGUE), "clean", key) for key in ("ours", "random", "pixels")}
    return {"ours": means["ours"][8], "random": means["random"][32], "pixels": means["pixels"][784]}


def pairs() -> Figures:
    found = Found(vectors.RESULTS)
    scores = {
        f"{name}_{method}": found.score(f"paired-{name}-minilm", method, length)
        for name, shorter in (("debian", 32), ("wordnet", 64))
        for method, length in (("neural", shorter), ("prefix", 384))
    }
    return {name: score for name, score in scores.items() if score is not None}


def ranked_by_cosine() -> Figures:
    found = Found(vectors.RESULTS)
    return {
        ranking: [mean(found.values("storage", f"ours @ {n}", n, by=by)) for n in BYTES]
        for ranking, by in (("product", BY_PRODUCT), ("cosine", BY_COSINE))
    }


# Graphs


def variant(name: str, data: str) -> float:
    """Validation accuracy in percent of a variant of the recipe, mean over seeds."""
    rows = result(f"graphs/{defaults.STUDIES['recipe'].file.removesuffix('.json')}")["rows"]
    return 100 * mean(row["validation"] for row in rows if (row["variant"], row["data"]) == (name, data))


def changes() -> Figures:
    first, clipped, hidden = "ritz-trace, 5 blocks", "+ gradients clipped at 1", "+ half of the features hidden"
    return {
        "computers": variant(first, "amazon_computers") - variant(clipped, "amazon_computers"),
        "words": [variant(hidden, data) - variant(first, data) for data in ("planetoid_cora", "planetoid_citeseer")],
    }


def walks() -> Figures:
    finished = plan.Finished()

    def gain(data: str, relation: str) -> float:
        with_walks, without = (
            finished.validation(Job(data, "scl", relation=name, screening=True))
            for name in (f"walks-{relation}", relation)
        )
        assert with_walks is not None and without is not None
        return 100 * (with_walks - without)

    sets = ("amazon_computers", "coauthor_physics", "debian_bookworm", "planetoid_cora", "planetoid_citeseer")
    helped = {data for data in sets if min(gain(data, "hidden"), gain(data, "uniform")) >= 0.5}
    assert helped == {"debian_bookworm"}
    hidden = "+ half of the features hidden"
    start = [
        variant("the same, uniform start", data) - variant(hidden, data)
        for data in ("planetoid_cora", "planetoid_citeseer")
    ]
    return {
        "debian": [gain("debian_bookworm", relation) for relation in ("hidden", "uniform")],
        "cora": -gain("planetoid_cora", "uniform"),
        "start_cora": start[0],
        "start_citeseer": -start[1],
    }


def widths() -> Figures:
    names = [f"screen-debian_bookworm-nested-walks-uniform{width}-s0" for width in ("", "-wide", "-wider")]
    runs = [result(f"graphs/{name}") for name in names]
    assert {(run["settings"]["steps"], run["settings"]["batch_size"]) for run in runs} == {(3000, 4096)}
    return {"accuracy": [100 * run["validation"]["logistic"] for run in runs]}


def wider_on_physics() -> Figures:
    """Mean gain in rank from width 256 to 1,024 without blocks, in percent."""
    gains = []
    for setting in ("unseen", "seen"):
        for seed in range(3):
            sizes = result(f"graphs/edges-coauthor_physics-ours-{setting}-s{seed}")["sizes"]
            ranks = {(score["width"], score["blocks"]): score["rank"] for score in sizes}
            gains.append(ranks[1024, 0] / ranks[256, 0] - 1)
    return {"more": 100 * mean(gains)}


def spectrum() -> Figures:
    runs = {
        graph: result(f"graphs/graphs-spectrum-{graph}")["runs"]
        for graph in ("amazon_computers", "bipartite-ring", "planetoid_cora")
    }
    for run in runs.values():
        assert max(run[way]["largest_relative_error"] for way in run if "by degree" not in way) < 0.1
    return {"error": 100 * runs["amazon_computers"]["sampled edges, by degree"]["largest_relative_error"]}


# Kernels


def fit(method: str, points: int) -> Any:
    return next(
        row for row in result("eigenfunctions/kernel-cost-cpu")["fits"] if (row["method"], row["n"]) == (method, points)
    )


def million_points() -> Figures:
    most, some = fit("eigenmap", 1_000_000), fit("eigenmap", 64_000)
    small = [fit(method, 4000)["processor_seconds"] for method in ("kernel-pca", "nystroem")]
    assert len({round(seconds) for seconds in small}) == 1
    assert all("failed" in fit(method, 16_000) for method in ("kernel-pca", "nystroem"))
    return {
        "processor": most["processor_seconds"],
        "clock": most["seconds"],
        "memory": most["peak_mb"] / 1000,
        "steps": most["steps"],
        "some": some["processor_seconds"],
        "least": some["steps"],
        "small": small[0],
    }


def captured() -> Figures:
    ours = fit("eigenmap", 1_000_000)
    compared = result("eigenfunctions/kernel-cost-cpu")["transform"]["nystroem"]
    nystroem = next(row for row in compared if row["landmarks"] == 4096)
    return {
        "ours": ours["captured"],
        "nystroem": nystroem["captured"],
        "speed": round(ours["transform_points_per_processor_second"], -3),
        "its_speed": round(nystroem["transform_points_per_processor_second"], -3),
    }


def streamed() -> Figures:
    measured = result("eigenfunctions/kernel-cost-cuda")
    stream = next(row for row in measured["streams"] if row["precision"] == "bf16")
    speeds = {row["method"]: row["points_per_s"] / 1e6 for row in measured["transform"]}
    return {
        "points": stream["points"] / 1e6,
        "k": measured["stream"]["k"],
        "seconds": stream["seconds"],
        "share": 100 * stream["share_of_matrix_product_peak"],
        "ours": speeds["eigenmap, bf16"],
        "nystroem": speeds["Nystroem, 4096 landmarks, tf32"],
    }


# Databases


def postgres() -> Figures:
    rows = result("scale/postgres-cifar10-20k")["rows"]
    part, full = (
        next(row for row in rows if row["precision"] == "float32" and (row["prefix"], row["shortlist"]) == wanted)
        for wanted in ((32, 400), (256, 100))
    )
    half = next(row for row in rows if row["precision"] == "float16")
    assert round(full["hnsw_bytes_per_item"] / part["hnsw_bytes_per_item"]) == 3
    assert round(part["table_bytes_per_item"] / half["table_bytes_per_item"]) == 2
    return {
        "recall": part["recall@10"],
        "single": part["queries_per_second_single"],
        "batch": part["queries_per_second_batch"],
        "full_recall": full["recall@10"],
        "full_single": full["queries_per_second_single"],
        "full_batch": full["queries_per_second_batch"],
    }


# Method: the example of the page itself


def in_sample() -> Figures:
    page = (ROOT / METHOD).read_text(encoding="utf-8")
    example = next(block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "def pairs" in block)
    names: dict[str, Any] = {}
    exec(compile(example, METHOD, "exec"), names)
    found = names["em"].align(names["fit"], names["fit"]).eigenvalues
    return {
        "zeros": float(found[4]),
        "sum": float(found[found > 0].sum()),
        "truth": float(names["mu"].sum()),
        "radius": (2 * names["k"] / names["N"]) ** 0.5,
    }


def strength() -> Figures:
    """The strength of the penalty from which sixteen features are distinct, by the condition above the sentence."""
    mu = [1.0, *(0.9 * 0.93**place for place in range(15))]
    return {"alpha": max((mu[i] - mu[j]) / mu[i] ** 2 for j in range(16) for i in range(j))}


QUOTES = (
    Quote(
        README,
        "Our first 8 numbers ({ours}) find more than 32 features of an unordered network ({random}) or all 784 pixels "
        "({pixels}).",
        first_screen,
    ),
    Quote(
        README,
        "32 learned numbers find more than all 384 of MiniLM on Debian's package descriptions (nDCG@10 {debian_neural} "
        "against {debian_prefix}). On WordNet it takes 64 ({wordnet_neural} against {wordnet_prefix}).",
        pairs,
    ),
    Quote(
        "docs/search.md",
        "16, 32 and 96 bytes then have an nDCG@10 of {cosine} instead of {product}.",
        ranked_by_cosine,
    ),
    Quote(
        GRAPHS,
        "In these short runs the changes cost {computers} points on Computers and gain {words} on Cora and Citeseer.",
        changes,
    ),
    Quote(
        GRAPHS,
        "**Longer walks** (`go_on`) gain half a point or more, with and without hiding, on Debian only ({debian}). "
        "They cost Cora {cora} points without hiding. They do not help everywhere, so they stay an option. - **A "
        "uniform start** alone gains {start_cora} points on Cora and costs {start_citeseer} on Citeseer in the short "
        "runs above.",
        walks,
    ),
    Quote(
        GRAPHS,
        "On a GPU the gain on Debian is larger: {accuracy} at width 256, 1,024 and 2,048. Those runs used "
        '`objective="nested"`, walks, a uniform start and 3,000 steps of 4,096 pairs.',
        widths,
    ),
    Quote(
        GRAPHS,
        "On Physics, four times the cost found {more} % more edges, which is not enough.",
        wider_on_physics,
    ),
    Quote(
        GRAPHS,
        'The goal of 10 % is met on all three graphs, with exact moments and with edges of `start="balanced"`. A third '
        "of the leading functions of amazon_computers live on 3 to 14 nodes of low degree, which edges drawn by degree "
        "hardly visit. With as many of those edges, the largest error was {error} %.",
        spectrum,
    ),
    Quote(
        KERNELS,
        "1,000,000 points took {processor} s of processor time ({clock} s of wall-clock time) and {memory} GB, in one "
        "pass of {steps} steps. 64,000 points took {some} s and {least} steps, the minimum. `KernelPCA` and Nystroem "
        "on all points take {small} s at 4,000 points and run out of memory at 16,000.",
        million_points,
    ),
    Quote(
        KERNELS,
        "the functions learned from the million captured {ours} of the spectrum, and Nystroem with 4,096 landmarks "
        "{nystroem}. - **Transform.** One second of processor time embeds {speed} points, or {its_speed} with that "
        "Nystroem.",
        captured,
    ),
    Quote(
        KERNELS,
        "On one H200, a stream of {points} million points at k = {k} took {seconds} s, at {share} % of the throughput "
        "of a plain matrix product on that GPU. `transform` embeds {ours} million points per second there, Nystroem of "
        "the same quality {nystroem} million.",
        streamed,
    ),
    Quote(
        DATABASES,
        "faster at the same recall (20,000 codes of CIFAR-10): - With a shortlist long enough for recall {recall}, the "
        "index on 32 features answered {single} queries per second one at a time and {batch} in a batch. - The index "
        "on whole codes answered {full_single} and {full_batch}, at recall {full_recall}.",
        postgres,
    ),
    Quote(
        METHOD,
        "With mu = 1, 0.9, 0.9 * 0.93, 0.9 * 0.93^2, ... sixteen features need alpha > {alpha}.",
        strength,
    ),
    Quote(
        METHOD,
        "In the first line the zeros reach {zeros}, and the positive values add up to {sum} where the truth is "
        "{truth}. For truly unrelated features A is a random symmetric matrix with entries of variance 1/(2N), whose "
        "spectrum fills a semicircle of radius sqrt(2k/N), here {radius}.",
        in_sample,
    ),
)
