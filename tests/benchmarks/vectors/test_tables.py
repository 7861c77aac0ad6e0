"""The page from results written here: goals, gaps and cells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import harness
from benchmarks.common.plan import Place
from benchmarks.vectors import RESULTS, goals, quantised, searched, study, tables
from benchmarks.vectors.found import Found


def result(method_scores: dict[str, dict[int, float]], seed: int, **protocol: Any) -> dict[str, Any]:
    rows = [
        {
            "method": method,
            "scores": {str(d): {"ndcg@10": v, "recall@10": v, "mrr": v} for d, v in scores.items()},
            "seconds": 2.0,
        }
        for method, scores in method_scores.items()
    ]
    about = {"date": "2026-01-01", "commit": "c", "device": "cpu", "torch": "2"}
    return {**about, "protocol": protocol, "job": {"seed": seed}, "rows": rows}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    for seed, shift in enumerate((0.0, 0.02)):
        scores = {
            "prefix": {16: 0.3, 32: 0.5, 64: 0.7, 384: 0.8},
            "pca": {16: 0.35, 32: 0.55, 64: 0.7, 384: 0.8},
            "linear": {16: 0.6 + shift, 32: 0.7, 64: 0.8, 384: 0.85},
            "neural": {16: 0.63 + shift, 32: 0.72, 64: 0.79, 384: 0.85},
        }
        made = result(scores, seed, pairs=1000, test=500)
        harness.write(tmp_path / f"paired-debian-minilm-s{seed}.json", made)
    scores = {name: {8: value, 32: value} for name, value in (("prefix", 0.2), ("pca", 0.3), ("neighbours", 0.296))}
    harness.write(tmp_path / "unlabelled-cisi-minilm-s0.json", result(scores, 0, judged=True, queries=9, documents=99))
    return tmp_path


def test_means_are_over_splits_and_what_is_not_there_has_no_value(stored: Path) -> None:
    found = Found(stored)
    assert found.values("paired-debian-minilm", "linear", 16) == [0.6, 0.62]
    assert found.score("paired-debian-minilm", "linear", 16) == pytest.approx(0.61)
    assert found.score("paired-debian-minilm", "linear", 48) is None and found.score("nothing", "linear", 16) is None
    assert found.beside("paired-debian-minilm", (("linear", 16), ("pca", 16))) == [(0.6, 0.35), (0.62, 0.35)]
    assert list(found.jobs("paired-")) == ["paired-debian-minilm"]


def test_goals_are_met_missed_or_not_run(stored: Path) -> None:
    told = {goal.words: goal for goal in goals.goals(Found(stored))}
    assert told["Debian, MiniLM, 64 of 384 features not below the full vector"].met is True
    assert told["Debian, MiniLM, 32 of 384 features at least 95 % of the full vector"].met is False
    best = told["Debian, MiniLM, 16 features at least .62"]
    assert best.met is True and best.figures == "0.640, neural, 2 of 3 splits"
    assert told["Without labels (neighbours), within 0.005 of PCA at every length on every set"].met is True
    (gain,) = [one for words, one in told.items() if words.startswith("Without labels (neighbours), at least 0.05")]
    assert gain.met is True and gain.figures == "on none: the plain word, below"
    assert "no method gains 0.05" in tables.page(stored)
    assert told["WordNet, MiniLM, 64 of 384 features not below the full vector"].met is None


def test_the_page_names_what_was_missed_first(stored: Path) -> None:
    answer, heading, page = tables.page(stored).partition("## The goals")
    assert heading and "64 numbers of our neural head have nDCG@10 0.790 and not run" in answer
    assert page.index("**missed**") < page.index("not run") < page.index(": yes")
    assert "| **ours, neural** | **0.640 ± 0.014** |" in page and "Fitted to 1,000 pairs, tested on 500." in page
    assert "### CISI, MiniLM: 9 queries, 99 documents, human judgements" in page


def test_what_was_tried_is_told_of_goals_that_are_not_met(tmp_path: Path) -> None:
    for deep, told in ((0.4, False), (0.5, True)):
        for seed in range(3):
            scores = {"two-spaces": {32: 0.3}, "neural-chosen": {32: 0.45}, "deep-cca": {32: deep}}
            harness.write(tmp_path / f"emoji-s{seed}.json", result(scores, seed, pairs=9, test=9))
        (lines,) = [each for each in searched.tried(Found(tmp_path)) if not each.startswith("##")]
        assert ("- Emoji" in lines) is told


def test_the_page_tells_what_was_tried_for_every_goal_that_is_missed() -> None:
    found = Found(RESULTS)
    missed = [goal.words for goal in goals.goals(found) if goal.met is False]
    told = [start for starts in searched.attempts(found) for start in starts]
    assert missed and all(any(words.startswith(start) for start in told) for words in missed)


def bytes_of(scores: dict[str, float], by_cosine: dict[str, float] | None = None) -> dict[str, Any]:
    """A result of quantisers with the same score at 16, 32 and 96 bytes; some have a ranking by cosine."""
    every = {f"{name} @ {n}": {n: value} for name, value in scores.items() for n in (16, 32, 96)}
    made = result(every, 0, test=9, documents=99)
    for row in made["rows"]:
        row["build_cpu_seconds"] = 1.0
        for score in row["scores"].values():
            score["recall of nearest"] = 0.5
        name, _, n = row["method"].partition(" @ ")
        if name in (by_cosine or {}):
            row["scores by cosine"] = {n: dict.fromkeys(("ndcg@10", "recall of nearest"), by_cosine[name])}
    return made


def test_the_lead_in_few_bytes_is_divided_into_codes_and_quantiser(tmp_path: Path) -> None:
    scores = {"ours": 0.6, "ours without pairs": 0.52, "opq": 0.5}
    harness.write(tmp_path / "storage-s0.json", bytes_of(scores))
    assert "Our lead" not in "\n".join(quantised.words(Found(tmp_path)))
    harness.write(tmp_path / "storage-s0.json", bytes_of({**scores, "opq on our codes": 0.57}))
    told = "\n".join(quantised.words(Found(tmp_path)))
    assert "OPQ gains +0.070 / +0.070 / +0.070 nDCG@10 if it quantises our codes instead of the vectors" in told
    assert "another +0.030 / +0.030 / +0.030 on the same codes. Without any pairs, ours gains +0.020 / " in told
    assert "| OPQ on our codes from pairs | 0.570 |" in told and "By cosine, our lead" not in told


def test_both_rankings_of_a_quantiser_are_shown_and_judged(tmp_path: Path) -> None:
    scores = {"ours": 0.6, **dict.fromkeys(goals.RIVALS, 0.5)}
    harness.write(tmp_path / "storage-s0.json", bytes_of(scores, {"ours": 0.65, "pq": 0.66}))
    found = Found(tmp_path)
    told = "\n".join(quantised.words(found))
    assert "| **ours**, codes from pairs | **0.600** | **0.600** | **0.600** | 0.650 |" in told
    assert "| OPQ, faiss | 0.500 | 0.500 | 0.500 | not run |" in told
    assert "By cosine, every quantiser finds more: by 0.050 to 0.160 nDCG@10." in told
    judged = {goal.words: goal for goal in goals.goals(found)}
    assert judged["16 bytes per vector, ranked by inner product, first in nDCG@10"].met is True
    by_cosine = judged["16 bytes per vector, ranked by cosine, first in nDCG@10"]
    assert by_cosine.met is False
    assert by_cosine.figures == "0.650 against 0.660 of pq; not run: opq, rabitq, turboquant, 1 of 3 splits"


def test_quantisers_are_compared_on_our_codes_too(tmp_path: Path) -> None:
    others = dict.fromkeys(goals.RIVALS, 0.5)
    same = {f"{name} on our codes": 0.57 for name in others}
    for best, met in ((0.59, True), (0.61, False)):
        scores = {"ours": 0.6, **others, **same, "turboquant on our codes": best}
        harness.write(tmp_path / "storage-s0.json", bytes_of(scores))
        start = "16 bytes per vector, ranked by inner product"
        first, fair = (goal for goal in goals.goals(Found(tmp_path)) if goal.words.startswith(start))
        assert first.met is True and "against 0.500 of pq" in first.figures
        assert fair.met is met and f"against {best:.3f} of turboquant on our codes" in fair.figures


def test_a_length_that_some_splits_lack_has_no_figure(tmp_path: Path) -> None:
    for seed, lengths in enumerate(((32,), (32, 64))):
        scores = {"two-spaces": {32: 0.3, 64: 0.4}, "neural-chosen": dict.fromkeys(lengths, 0.5)}
        harness.write(tmp_path / f"emoji-s{seed}.json", result(scores, seed, pairs=9, test=9))
    page = "\n".join(tables.pictures(Found(tmp_path)))
    assert "| 0.300 ± 0.000 | 0.400 ± 0.000 |" in page and "| **0.500 ± 0.000** | – |" in page


def test_a_time_on_a_busy_machine_leaves_a_goal_open(stored: Path) -> None:
    row = {"method": "linear", "seconds": 900.0, "cpu_seconds": 100.0, "load": 30.0, "threads": 1, "cores": 2}
    for cpu, met in ((100.0, None), (200.0, False)):
        made = {"rows": [{**row, "cpu_seconds": cpu}], "job": {"seed": 0}}
        harness.write(stored / "cost.json", made)
        (goal,) = [one for one in goals.goals(Found(stored)) if one.words.startswith("A million pairs")]
        assert goal.met is met and ("open (the clock showed 900 s" in goal.line) is (met is None)


def test_a_fit_from_disk_is_judged_by_its_memory(stored: Path) -> None:
    row = {
        **{"method": "disk", "rows": 10_000_000, "pairs": 5_000_000, "features": 768, "dtype": "float16"},
        **{"file_bytes": 15_360_000_128, "seconds": 400.0, "cpu_seconds": 700.0, "products_cpu_seconds": 350.0},
        **{"share_of_products": 0.5, "reading_seconds": 20.0, "share_of_disk": 0.05, "memory_before_mb": 300.0},
        **{"load": 2.0, "threads": 2, "cores": 2},
    }
    for peak, met in ((1_500.0, True), (15_000.0, False)):
        about = {"date": "2026-11-17", "commit": "abc", "device": "cpu", "torch": "2", "job": {"seed": 0}}
        harness.write(stored / "cost-disk.json", {**about, "rows": [{**row, "peak_memory_mb": peak}]})
        (goal,) = [one for one in goals.goals(Found(stored)) if one.words.startswith("10 million vectors")]
        assert goal.met is met and "5 % of the speed of the disk" in goal.figures
    assert "one file of 15.4 GB on disk" in tables.page(stored)


def test_rivals_that_find_more_are_named(stored: Path) -> None:
    assert "No method measured here is ahead of ours at any length. Not run:" in tables.page(stored)
    file = stored / "paired-debian-minilm-s0.json"
    result = json.loads(file.read_text())
    (ours,) = [row for row in result["rows"] if row["method"] == "neural"]
    better = {length: {**scores, "ndcg@10": 0.99} for length, scores in ours["scores"].items()}
    result["rows"].append({**ours, "method": "csr", "scores": better})
    harness.write(file, result)
    assert "Ahead of ours: CSR, sparse codes of equal bytes at 16 features (0.990 against " in tables.page(stored)
    assert "The full vector of 384 numbers has" in " ".join(tables.in_short(Found(stored)).split())


def test_a_page_without_results_says_so(tmp_path: Path) -> None:
    page = tables.page(tmp_path)
    assert "0 of " in page and "not run" in page


def test_a_job_is_done_when_all_of_its_rows_are_there(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "RESULTS", stored)
    jobs = {job.name: job for job in study.jobs(Place(stored))}
    job = jobs["paired-debian-minilm-s0"]
    assert not job.done and job.needs == ("debian",) and job.seconds < jobs["paired-debian-minilm-s2"].seconds


def test_the_page_tells_how_far_scores_of_mteb_are_from_ours(tmp_path: Path) -> None:
    origin = {"date": "2026-11-18", "commit": "abc", "device": "cpu", "torch": "2.13", "python": "3.11"}
    rows = [{"method": "prefix", "scores": {}, "difference": 2e-6}, {"method": "neighbours", "difference": 3e-6}]
    made = {**origin, "mteb": "2.26", "protocol": {}, "job": {"set": "cisi", "seed": 0}, "rows": rows}
    harness.write(tmp_path / "mteb-cisi.json", made)
    told = "\n".join(tables.unlabelled(Found(tmp_path)))
    assert "ran CISI as local tasks of MTEB 2.26" in told and "3e-06" in told
