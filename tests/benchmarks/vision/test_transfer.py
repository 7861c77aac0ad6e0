"""The study of transfer: its scores are those of the library, its sets are divided by class, its page counts right."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.common import harness
from benchmarks.vision import RESULTS, criteria, criteria_tables, sample, sets, transfer, transfer_tables
from benchmarks.vision.jobs import Job
from benchmarks.vision.sets import DataSet
from benchmarks.vision.transfer import METRICS, Code, load, score
from eigenmap.evaluation.relevance import Relevance
from eigenmap.evaluation.retrieval import retrieval
from eigenmap.networks import code_rows
from eigenmap.recipes import Recipe
from eigenmap.training import CollapseError
from tests.end_to_end.photos import pictures


@pytest.mark.parametrize("multi_label", [False, True])
def test_scores_are_those_of_the_library(multi_label: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "TOP", 20)
    generator = torch.Generator().manual_seed(0)
    query, gallery = torch.randn(15, 6, generator=generator), torch.randn(40, 6, generator=generator)
    if multi_label:
        labels = [torch.rand(n, 4, generator=generator) < 0.4 for n in (15, 40)]
    else:
        labels = [torch.randint(3, (n,), generator=generator) for n in (15, 40)]
    found = score(query, gallery, Relevance(*labels, torch.device("cpu")), block=4)
    (row,) = retrieval(query, gallery, *labels, dims=[6], top=(10, 20, 40))
    expected = (row["map_over_found@20"], row["map_over_relevant@40"], row["precision@10"])
    assert [found[name][0] for name in METRICS] == pytest.approx(expected, abs=1e-6)
    assert all(0 < found[name][1] < 0.5 for name in METRICS)


def test_the_classes_of_tiny_imagenet_are_divided(tmp_path: Path) -> None:
    labels = np.arange(10)
    images = labels[:, None, None, None].astype(np.uint8) * np.ones((10, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "tiny.npz", train_x=images, train_y=labels, test_x=images[::-1], test_y=labels[::-1])
    seen, unseen = load(tmp_path, "tiny80"), load(tmp_path, "tiny20")
    for part, other in zip(seen, unseen, strict=True):
        assert sorted(other.labels.tolist()) == [4, 9] and len(part) + len(other) == 10
        assert part.images[:, 0, 0, 0].tolist() == part.labels.tolist()


def test_a_code_is_one_product_of_both_outputs() -> None:
    features, psi = torch.randn(5, 3), torch.randn(5, 4)
    code = Code("any", "both", torch.ones(7).double(), torch.randn(7, 2).double())
    torch.testing.assert_close(code(features, psi), (code_rows(features, psi, "both") - 1) @ code.rotation.float())


def test_near_is_two_percent_or_two_standard_errors() -> None:
    cells = {"staged": (0.50, 0.001), "a": (0.51, 0.001), "b": (0.4, 0.06)}
    assert transfer_tables.holds(cells, "staged") == (False, True)
    assert transfer_tables.holds(cells, "a") == (True, True)
    assert transfer_tables.holds(cells, "b") == (False, True)
    assert transfer_tables.holds({**cells, "b": (0.4, 0.05)}, "b") == (False, False)


def test_a_network_searches_every_set_and_leaves_a_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = pictures(200, 12), np.arange(200) % 10
    several = np.eye(10, dtype=bool)[labels] | np.eye(10, dtype=bool)[(labels + 1) % 10]
    for name, y in (("cifar10", labels), ("tiny", labels), ("coco", several)):
        parts = {"train_x": images[:160], "train_y": y[:160], "test_x": images[160:], "test_y": y[160:]}
        np.savez(tmp_path / f"{name}.npz", **parts)
        monkeypatch.setitem(sets.SETS, name, DataSet("laptop", 160, "weak"))

    class Small(Job):
        def recipe(self) -> Recipe:
            return super().recipe().but(compile=False, precision="32-true", channels_last=False, views="weak")

    monkeypatch.setattr(transfer, "Job", partial(Small, batch_size=32))
    monkeypatch.setattr(transfer, "EPOCHS", 1)
    monkeypatch.setattr(sample, "KEPT", 6)
    result = transfer.run("coco", 3, tmp_path, components=8, others=True, outputs=tmp_path / "sample")
    assert set(result["searched"]) == set(transfer.SEARCHED) and result["method"] == "scl"
    for rows in result["searched"].values():
        assert {
            "staged",
            "staged, ordered by the code",
            "projector, own order",
            "encoder PCA, centred",
            "staged, head 4, lift 2",
        } <= set(rows)
        assert all(0 <= row[metric][0] <= 1 for found in rows.values() for row in found for metric in METRICS)
    parts = {path.stem: dict(np.load(path)) for path in (tmp_path / "sample").glob("*.npz")}
    assert set(parts) == {"pairs", "moments", *transfer.SEARCHED}
    width = int(parts["pairs"]["width"]) + 6
    assert parts["coco"]["gallery_x"].shape == (160, width) and parts["coco"]["query_y"].shape == (40, 10)
    assert parts["tiny20"]["gallery_x"].shape == (32, width)
    assert parts["pairs"]["own_x"].shape == parts["pairs"]["other_x_plus"].shape == (16, width)
    # Moments of reduced rows are those of the whole rows: the mean square of the pairs' own rows lies near them.
    within = parts["moments"]["held_within"]
    assert within.shape == (width + 1, width + 1)
    mean_squares = np.diag(within)[:-1] / within[-1, -1]
    seen = np.concatenate([parts["pairs"][f"own_{side}"] for side in ("x", "x_plus")]).astype(float)
    assert np.corrcoef(mean_squares, (seen**2).mean(0))[0, 1] > 0.9

    found = criteria.run(tmp_path / "sample", "coco")
    assert {row["code"] for row in found["rows"]} >= {"encoder PCA, centred", "projector, ridge 1, t 4"}
    for row in found["rows"]:
        assert set(row["map"]) == set(transfer.SEARCHED) and all(0 <= value <= 1 for value in row["map"].values())
        assert row["criteria"]["partner found: InfoNCE"] <= 0 <= row["criteria"]["partner found: MRR"] <= 1


def test_a_network_that_collapses_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def collapse(*_: object) -> None:
        raise CollapseError("rank 1")

    monkeypatch.setattr(transfer, "load", lambda *_: (None, None))
    monkeypatch.setattr(transfer, "trained_problem", collapse)
    result = transfer.run("coco", 3, tmp_path, method="paper")
    assert result["collapsed"] == "rank 1" and "searched" not in result
    assert transfer_tables.collapsed(tmp_path) == ""
    harness.write(tmp_path / "transfer-coco-paper-s3.json", result)
    assert transfer_tables.collapsed(tmp_path) == "Collapsed in training, and therefore without rows: paper on COCO."
    assert transfer_tables.load(tmp_path)["coco"] == []
    for path in RESULTS.glob("transfer-*.json"):
        (tmp_path / path.name).symlink_to(path)
    assert "paper on COCO." in transfer_tables.page(tmp_path)


def test_criteria_know_a_code_that_finds_the_partner() -> None:
    x = torch.eye(20)
    assert criteria.reciprocal_rank(x, x) == 1 and criteria.reciprocal_rank(x, torch.ones(20, 20)) == pytest.approx(
        0.05
    )
    assert criteria.infonce(x, x) > -1e-6 and criteria.infonce(x, torch.ones(20, 20)) == pytest.approx(-np.log(20))
    rows = torch.nn.functional.normalize(torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    assert criteria.shared_with_pixels(rows, rows) == 1


def test_the_page_of_criteria_correlates_over_codes() -> None:
    rows = [
        {"code": name, "dim": 8, "criteria": {"good": value, "bad": -value}, "map": {"coco": value / 10}}
        for name, value in (("a", 1.0), ("b", 3.0), ("c", 2.0))
    ]
    assert criteria_tables.correlation(rows, "good", "coco") == pytest.approx(1)
    assert criteria_tables.correlation(rows, "bad", "coco") == pytest.approx(-1)
    assert criteria_tables.loss(rows, "good", "coco") == 0
    assert criteria_tables.loss(rows, "bad", "coco") == pytest.approx(2 / 3)
    longer = [{**row, "dim": 64} for row in rows[:1]]
    assert [row["dim"] for row in criteria_tables.rows_at({"rows": rows + longer}, 64)] == [64, 8, 8]


def test_seeds_are_averaged_apart_from_the_confirming_one() -> None:
    runs = {"coco": [{"seed": seed, "method": method} for seed, method in ((1, "scl"), (3, "scl"), (3, "paper"))]}
    assert transfer_tables.of_seeds(runs, transfer_tables.AVERAGED)["coco"] == [runs["coco"][0], runs["coco"][2]]
    assert transfer_tables.of_seeds(runs, transfer_tables.CONFIRMING)["coco"][:1] == [runs["coco"][1]]


def test_the_short_table_has_means_of_seen_and_unseen_sets_and_names_what_is_lost(tmp_path: Path) -> None:
    assert transfer_tables.in_short(tmp_path) == "Not run yet."
    text = transfer_tables.in_short(RESULTS)
    head, _, first = [line for line in text.splitlines() if line.startswith("|")][:3]
    assert head.count("| seen: ") == head.count("| unseen: ") == 4
    runs = transfer_tables.of_seeds(transfer_tables.load(RESULTS), transfer_tables.AVERAGED)
    full = {
        (trained, searched): transfer_tables.averaged(of_set, searched, "staged", "map_over_found@1000", None)
        for trained, of_set in runs.items()
        for searched in transfer_tables.SEARCHED
    }
    for seen, column in ((True, 5), (False, 9)):
        values = [found[0] for (trained, searched), found in full.items() if found and (trained == searched) == seen]
        assert len(values) == (3 if seen else 9)
        assert f"{sum(values) / len(values):.3f}" in first.split("|")[column]
    pairs = next(transfer_tables._lost(runs)).partition(": ")[2].rstrip(".").split("; ")
    for pair in pairs:
        trained, searched, at = re.split(" → | at ", pair)
        said = next(part for part in " ".join(text.split()).split(". ") if f"`{trained}` →" in part)
        assert f" {searched} ({at})" in said
