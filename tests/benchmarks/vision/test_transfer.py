"""The study of transfer: its scores are those of the library, its sets are divided by class, its page counts right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.vision import transfer, transfer_tables
from benchmarks.vision.transfer import METRICS, Code, load, score
from eigenmap.evaluation.relevance import Relevance
from eigenmap.evaluation.retrieval import retrieval
from eigenmap.networks import code_rows


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
