"""docs/search-benchmarks.md: what the tables of speed, recall and quality say in words."""

from __future__ import annotations

from benchmarks.search import RESULTS
from benchmarks.search.tables import BYTES, PHOTOS, SETS

from .quote import Figures, Quote, result

SEARCH = "docs/search-benchmarks.md"
GUIDE = "docs/search.md"
MAP = "map_over_found@1000"
UNSCALED = "bit budget, not scaled"
TIMED = ("cifar10", "coco")
LEVEL = 0.0015
"""Two ways are level where their difference is printed as 0.001 or less."""


def gains(data: str, rival: str, top: int = 1000) -> list[float]:
    """What the bit budget gains in mAP over another way to store items, for every number of bytes."""
    rows, metric = result(f"search/search-{data}-quality")["rows"], f"map_over_found@{top}"
    return [rows[f"bit budget, {n} bytes"][metric] - rows[f"{rival}, {n} bytes"][metric] for n in BYTES]


def scale() -> Figures:
    assert min(gains("cifar10", UNSCALED)) > 0 and min(gains("catalogue", UNSCALED)) > 0 > max(gains("coco", UNSCALED))
    return {
        "cifar": max(gains("cifar10", UNSCALED)),
        "catalogue": max(gains("catalogue", UNSCALED)),
        "coco": -min(gains("coco", UNSCALED)),
        "tiny": max(abs(gain) for gain in gains("tiny", UNSCALED)),
        "top100": -min(gains("catalogue", UNSCALED, 100)),
        "elsewhere": -min(min(gains(data, UNSCALED, 100)) for data in ("cifar10", "coco", "tiny")),
    }


def million() -> Figures:
    found = [result(f"search/search-{data}-1000000")["rows"] for data in TIMED]

    def speeds(way: str) -> list[float]:
        batches = [rows[way]["speeds"]["batch, 2 threads"] for rows in found]
        return [batch["queries_per_second"] / batch["exact"] for batch in batches]

    default, prefix = "default (dim = auto)", "HNSW on prefix + refine"
    assert min(rows[default]["recall@10"] for rows in found) > 0.999
    usearch, faiss = found[1]["usearch HNSW, full vector"], "faiss HNSW, full vector"
    assert usearch["build_seconds"] == max(row["build_seconds"] for row in found[1].values())
    usearch_speed = usearch["speeds"]["batch, 2 threads"]
    return {
        "default": speeds(default),
        "funnel": speeds("funnel"),
        "hnsw": speeds(prefix),
        "seconds": [rows[prefix]["build_seconds"] for rows in found],
        "usearch": usearch_speed["queries_per_second"] / usearch_speed["exact"],
        "usearch_recall": usearch["recall@10"],
        "usearch_seconds": usearch["build_seconds"],
        "faiss": speeds(faiss),
        "faiss_recall": [rows[faiss]["recall@10"] for rows in found],
    }


def bit_budget() -> Figures:
    pq, opq = "PQ of the full vector", "OPQ of the full vector"
    for data in ("cifar10", "coco", "catalogue"):
        assert min(gains(data, pq)) > 0
    tiny = gains("tiny", pq)
    assert tiny[0] < -LEVEL and max(map(abs, tiny[1:])) < LEVEL
    assert min(gains("cifar10", opq)) > LEVEL
    assert max(max(gains(data, opq)) for data in SETS if data != "cifar10") < LEVEL
    rows = result("search/search-cifar10-quality")["rows"]
    assert rows["bit budget, 4 bytes"]["map_over_found@1000"] > rows["full length, float32"]["map_over_found@1000"]
    return {}


def recall(data: str, size: str, way: str) -> float:
    return float(result(f"search/search-{data}-{size}")["rows"][way]["recall@10"])


def by_cosine() -> Figures:
    for data in TIMED:
        for size in ("real", "1000000"):
            for n in (16, 64):
                rival = recall(data, size, f"faiss IVF-PQ, {n} bytes")
                assert recall(data, size, f"bit budget by cosine, {n} bytes") > rival
    return {}


def ranked(data: str, metric: str) -> list[Figures]:
    """Both rankings of compact codes, at every number of bytes."""
    return [row[metric] for row in result(f"search/search-{data}-rankings")["rows"].values()]


def cosine_gains(data: str, metric: str) -> list[float]:
    return [float(row["gain"]) for row in ranked(data, metric)]


def two_rankings() -> Figures:
    measured = [name for name in SETS | PHOTOS if (RESULTS / f"search-{name}-rankings.json").is_file()]
    assert set(measured) == {"catalogue", *PHOTOS}  # none of a model trained on a GPU
    assert all(min(cosine_gains(data, "recall@10")) > 0 for data in measured)
    for row in ranked("lite-tiny", MAP):
        assert abs(row["gain"]) < 2 * row["error"]
    catalogue = cosine_gains("catalogue", MAP)
    photos = {name: -min(cosine_gains(name, MAP)) for name in ("lite-cifar10", "lite-coco", "laptop-cifar10")}
    assert all(max(cosine_gains(name, MAP)) < 0 for name in photos)
    return {
        "efficientnet": [photos["lite-cifar10"], photos["lite-coco"]],
        "laptop": photos["laptop-cifar10"],
        "catalogue": [min(catalogue), max(catalogue)],
    }


def which_ranking() -> Figures:
    catalogue = cosine_gains("catalogue", "recall@10")
    photos = [gain for name in PHOTOS if name.startswith("lite-") for gain in cosine_gains(name, "recall@10")]
    return {
        "catalogue_recall": [min(catalogue), max(catalogue)],
        "photos_recall": [min(photos), max(photos)],
        "photos": two_rankings()["efficientnet"][0],
        "catalogue": two_rankings()["catalogue"],
    }


def prefixes() -> Figures:
    lost = {
        (data, size, dim): recall(data, size, f"exact, prefix {dim}") - recall(data, size, f"PCA to {dim}")
        for data in TIMED
        for size in ("real", "1000000")
        for dim in (16, 64)
    }
    fewer = [lost.pop((data, "1000000", 64)) for data in TIMED]
    assert max(lost.values()) <= 0 and round(fewer[0], 3) == round(fewer[1], 3)
    return {"fewer": fewer[0]}


QUOTES = (
    Quote(
        SEARCH,
        "Over the top 1,000 results it is higher on CIFAR-10 and the catalogue (by up to {cifar} and {catalogue}) and "
        "lower on COCO (by up to {coco}). On Tiny-ImageNet-100 the difference is {tiny} at most. - Over the top 100 it "
        "is lower by up to {top100} on the catalogue and {elsewhere} elsewhere",
        scale,
    ),
    Quote(
        SEARCH,
        "is {default} times as fast, with recall above 0.999. - The funnel without an approximate index reaches "
        "{funnel}. - HNSW on the 64 features reaches {hnsw}, and took {seconds} s to build. - HNSW of usearch on the "
        "full vector (COCO only) reaches {usearch} at recall {usearch_recall}. It took longest to build, "
        "{usearch_seconds} s. - HNSW of faiss on the full vector reaches {faiss}, at recall {faiss_recall}.",
        million,
    ),
    Quote(
        SEARCH,
        "On CIFAR-10, COCO and the catalogue, the bit budget is ahead of PQ at every budget from 4 to 64 bytes. - On "
        "Tiny-ImageNet-100 the two are level (within 0.001) from 8 bytes on, and PQ is ahead at 4. - OPQ is level with "
        "the bit budget or ahead on all but CIFAR-10. - On CIFAR-10, 4 bytes rank better than the full code in float32",
        bit_budget,
    ),
    Quote(
        SEARCH,
        "Ranked by cosine instead, the same bytes find more of the full-length neighbours than IVF-PQ does.",
        by_cosine,
    ),
    Quote(
        SEARCH,
        "Cosine finds more of the full-length neighbours on every set, at every number of bytes. - Over the top 1,000, "
        "relevance has the higher mAP on CIFAR-10 and COCO with EfficientNet-Lite0 (by up to {efficientnet}) and on "
        "CIFAR-10 with `laptop` (by up to {laptop}). - On Tiny-ImageNet-100 with EfficientNet-Lite0 they differ by "
        "less than two standard errors. - On the catalogue cosine has the higher mAP, by {catalogue}. - For codes of "
        "models trained on a GPU, mAP by cosine has not been measured.",
        two_rankings,
    ),
    Quote(
        GUIDE,
        "Recall@10 is higher by {catalogue_recall} on the embedded catalogue, and by {photos_recall} on photos "
        "described by a pretrained network. - **Items of the same class**: it depends. On photos of CIFAR-10 and COCO, "
        "relevance has the higher mAP, by up to {photos}. On Tiny-ImageNet-100 the two are level. On the catalogue "
        "cosine is ahead, by {catalogue}.",
        which_ranking,
    ),
    Quote(
        SEARCH,
        "PCA of the codes, made for each length, finds as many or more. The exception is 64 features among a million "
        "items (recall {fewer} lower).",
        prefixes,
    ),
)
