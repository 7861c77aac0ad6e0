"""Models of vectors in Python: every relation, saving, two spaces, the neural head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.data.vectors.pairs import load_labels
from eigenmap.fitting.vectors import fit_vectors, scores_of
from eigenmap.training.run import claim
from tests.compatibility.recording import StopAt, StoppedError
from tests.linear.planted import planted, squared, two_spaces

QUIET: dict[str, Any] = {"progress": False, "device": "cpu"}


def finds(left: np.ndarray, right: np.ndarray, dim: int) -> float:
    """Share of rows whose nearest row by cut and normalised codes is their partner."""
    a, b = (side[:, :dim] / np.linalg.norm(side[:, :dim], axis=1, keepdims=True) for side in (left, right))
    return float(((a @ b.T).argmax(1) == np.arange(len(a))).mean())


def test_codes_of_fresh_rows_find_their_partners_where_pca_does_not() -> None:
    x, y = planted(3000)
    model = fit_vectors(x[:2500], pairs=y[:2500], **QUIET)
    ours = finds(model.encode(x[2500:]), model.encode(y[2500:]), 8)
    both = np.vstack([x, y])
    _, _, directions = np.linalg.svd(both - both.mean(0), full_matrices=False)
    pca = [(side[2500:] - both.mean(0)) @ directions.T for side in (x, y)]
    assert ours > 0.2 > 0.1 > finds(*pca, 8)
    assert model.training["vectors"]["winner"] == "pairs" and model.kind == "vectors"
    assert scores_of(model)["ours"][8] > scores_of(model)["pca"][8]


def test_a_cut_code_is_the_prefix_of_a_long_one() -> None:
    x, y = planted()
    model = fit_vectors(x, 12, pairs=y, **QUIET)
    whole, short = model.encode(x[:50], normalize=False), model.encode(x[:50], dim=5, normalize=False)
    np.testing.assert_allclose(whole[:, :5], short, rtol=1e-5, atol=1e-6)
    assert whole.dtype == np.float32 and whole.shape == (50, 12)


@pytest.mark.parametrize("kind", [np.float16, np.float64])
def test_a_saved_model_gives_the_same_codes(tmp_path: Path, kind: type) -> None:
    x, y = (side.astype(kind) for side in planted())
    model = fit_vectors(x, 8, pairs=y, out=tmp_path / "run", **QUIET)
    again = em.Eigenmap.load(tmp_path / "run")
    np.testing.assert_array_equal(model.encode(x[:99]), again.encode(x[:99]))
    assert again.training["vectors"] == model.training["vectors"] and again.right is None
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(again.encode(tmp_path / "x.npy")[:99], again.encode(x[:99]))
    assert again.encode(np.empty((0, 24))).shape == (0, 8)


def test_two_spaces_are_one_model_with_two_sides(tmp_path: Path) -> None:
    x, y = two_spaces(2500)
    model = fit_vectors(x[:2000], pairs=y[:2000], out=tmp_path / "run", **QUIET)
    again = em.Eigenmap.load(tmp_path / "run")
    assert again.right is not None and again.side("left") is again and again.side("right") is again.right
    left, right = again.encode(x[2000:]), again.right.encode(y[2000:])
    np.testing.assert_array_equal(left, model.encode(x[2000:]))
    plain = [side.encode(rows[2000:], normalize=False) for side, rows in ((again, x), (again.right, y))]
    correlation = [np.corrcoef(plain[0][:, j], plain[1][:, j])[0, 1] for j in range(3)]
    assert right.shape == left.shape and correlation[0] > 0.8 and correlation[0] > correlation[2]
    assert again.right.weights_sha256 == again.weights_sha256 == em.Eigenmap.fingerprint(tmp_path / "run")
    with pytest.raises(EigenmapError, match="two spaces"):
        again.side()
    with pytest.raises(EigenmapError, match=r"20 numbers.* 12"):
        again.encode(y)


def test_equally_long_vectors_of_two_spaces() -> None:
    x, y = planted(800)
    turned = y @ np.linalg.qr(np.random.default_rng(3).normal(size=(24, 24)))[0]
    model = fit_vectors(x, pairs=turned, two_spaces=True, **QUIET)
    assert model.right is not None
    assert finds(model.encode(x), model.right.encode(turned), 8) > 0.15


@pytest.mark.parametrize(
    "relation",
    [
        {"views": [planted()[1], planted(seed=0, noise=0.5)[1]]},
        {"neighbours": 10},
        {"second": planted()[1] ** 3},
        {"lag": 2},
        {"labels": np.arange(1500) % 7},
        {"labels": [f"c{i % 7}" for i in range(1500)]},
        {"pairs": np.stack([np.arange(1499), np.arange(1, 1500)], 1)},
        {"pairs": np.stack([np.arange(1499), np.arange(1, 1500)], 1), "weights": np.linspace(0, 1, 1499)},
        {"pairs": np.stack([np.arange(1500)] * 2, 1), "others": planted()[1]},
    ],
    ids=lambda relation: "+".join(relation),
)
def test_every_relation_gives_a_model(relation: dict[str, Any]) -> None:
    model = fit_vectors(planted()[0], 8, **relation, **QUIET)
    assert model.n_components == 8 and model.right is None
    ours, simple = (scores_of(model)[name] for name in ("ours", "pca"))
    assert np.mean(list(ours.values())) >= min(np.mean(list(simple.values())), 1.0) - 0.01


def test_index_pairs_and_partner_rows_are_equivalent() -> None:
    x, y = planted(800)
    rows = np.stack([np.arange(800)] * 2, 1)
    named, aligned = (fit_vectors(x, 6, **how, **QUIET) for how in ({"pairs": rows, "others": y}, {"pairs": y}))
    np.testing.assert_allclose(named.eigenvalues_, aligned.eigenvalues_, atol=1e-12)


def test_weights_count() -> None:
    x, y = planted(800)
    good = np.stack([np.arange(800)] * 2, 1)
    bad = np.stack([np.arange(800), np.random.default_rng(0).permutation(800)], 1)
    weights = np.r_[np.ones(800), np.zeros(800)]
    noisy, weighted = (
        fit_vectors(x, 6, pairs=np.vstack([good, bad]), weights=given, others=y, **QUIET) for given in (None, weights)
    )
    assert weighted.eigenvalues_[0] > noisy.eigenvalues_[0] + 0.2


def test_a_file_of_pairs_is_read_by_its_type(tmp_path: Path) -> None:
    x, y = planted(800)
    for name, array in (("x", x), ("y", y), ("rows", np.stack([np.arange(799), np.arange(1, 800)], 1))):
        np.save(tmp_path / f"{name}.npy", array)
    partners = fit_vectors(tmp_path / "x.npy", pairs=tmp_path / "y.npy", **QUIET)
    indexed = fit_vectors(tmp_path / "x.npy", pairs=str(tmp_path / "rows.npy"), **QUIET)
    assert partners.training["vectors"]["relation"] == "partners"
    assert indexed.training["vectors"]["relation"] == "index pairs"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_labels_of_a_text_file_are_its_lines(tmp_path: Path, encoding: str) -> None:
    lines = [f"group\u2028{row % 2}" for row in range(4)]  # a separator that ends no line
    (tmp_path / "labels.txt").write_text("\n".join(lines) + "\n", encoding=encoding)
    assert load_labels(tmp_path / "labels.txt").tolist() == lines


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "none is given"),
        ({"pairs": planted()[1], "lag": 1}, "not pairs= and lag="),
        ({"views": []}, "at least one"),
        ({"lag": 1, "two_spaces": True}, "two_spaces= need pairs="),
        ({"pairs": planted()[1], "weights": np.ones(1500)}, "index pairs"),
        ({"pairs": planted()[1], "solver": "quantum"}, "solver"),
        ({"pairs": planted()[1], "width": 5}, "linear solver does not train"),
        ({"pairs": planted()[1], "minutes": 1}, "linear solver does not train"),
        ({"pairs": planted()[1], "n_components": 25}, "at most 24"),
        ({"pairs": planted()[1], "reversible": False}, "need lag="),
        ({"lag": 1, "reversible": 1}, "reversible"),
        ({"pairs": planted()[1], "lags": [2]}, "need lag="),
        ({"lag": 1, "lags": 5}, "lags"),
        ({"second": np.ones((1500, 9))}, "All rows of second are the same"),
        ({"pairs": planted()[1], "solver": "neural", "widht": 5}, "did you mean width"),
        ({"lag": 2, "solver": "neural-large"}, "for the slow modes of a time series, use neural"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(EigenmapError, match=says):
        fit_vectors(planted()[0], **{**QUIET, **change})


def test_nothing_is_left_behind_by_a_fit_that_is_refused(tmp_path: Path) -> None:
    x, y = planted()
    y[700, 3] = np.nan
    with pytest.raises(EigenmapError, match="Row 700 of the pairs"):
        fit_vectors(x, pairs=y, out=tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()


def test_a_neural_run_that_is_replaced_leaves_no_checkpoint(tmp_path: Path) -> None:
    x, y = planted(300)
    fit_vectors(x, 4, pairs=y, solver="neural", steps=3, out=tmp_path / "run", **QUIET)
    assert (tmp_path / "run" / "checkpoint.pt").is_file()
    fit_vectors(x, 4, pairs=y, out=tmp_path / "run", force=True, **QUIET)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.slow
def test_a_neural_head_finds_what_no_linear_map_can(tmp_path: Path) -> None:
    x, y = squared(4000)
    said: list[str] = []
    how: dict[str, Any] = {"solver": "neural", "steps": 150, "lr": 3e-2, "batch_size": 256, "width": 64, "unit": False}
    how |= {"dropout": 0.0, **QUIET}
    model = fit_vectors(x, pairs=y, out=tmp_path / "run", say=said.append, **how)
    scores = scores_of(model)
    assert model.source == "projector" and model.training["vectors"]["winner"] == "neural"
    assert np.mean(list(scores["ours"].values())) > np.mean(list(scores["linear"].values())) + 0.1
    assert any("it is kept" in line for line in said)
    again = em.Eigenmap.load(tmp_path / "run")
    np.testing.assert_array_equal(model.encode(x[:50]), again.encode(x[:50]))
    fresh = squared(300, seed=9)
    assert finds(again.encode(fresh[0]), again.encode(fresh[1]), 6) > 0.2


def test_the_large_head_is_the_neural_solver_with_other_settings() -> None:
    x, y = planted()
    model = fit_vectors(x, 4, pairs=y, solver="neural-large", steps=2, width=16, **QUIET)
    same = fit_vectors(
        x,
        4,
        pairs=y,
        solver="neural",
        steps=2,
        width=16,
        batch_size=2048,
        objective_options={"temperature": 0.05},
        **QUIET,
    )
    assert model.weights_sha256 == same.weights_sha256


def test_a_neural_head_that_finds_no_more_is_left_out(tmp_path: Path) -> None:
    x, y = planted(400)
    said: list[str] = []
    model = fit_vectors(
        x, 6, pairs=y, solver="neural", steps=2, lr=5.0, clip_norm=0, out=tmp_path / "run", say=said.append, **QUIET
    )
    assert model.source == "encoder" and any("left out" in line for line in said)
    linear = fit_vectors(x, 6, pairs=y, **QUIET)
    np.testing.assert_allclose(model.encode(x), linear.encode(x), atol=1e-6)
    assert not any(name.startswith("projector") for name in model.network.state_dict())


def test_a_neural_run_that_stopped_resumes_to_the_same_weights(tmp_path: Path) -> None:
    x, y = squared(400)
    how: dict[str, Any] = {"pairs": y, "solver": "neural", "steps": 20, "batch_size": 64, "width": 16, **QUIET}
    whole = fit_vectors(x, out=tmp_path / "whole", **how)

    with pytest.raises(StoppedError):
        fit_vectors(x, out=tmp_path / "run", **{**how, "progress": StopAt(10)})
    resumed = fit_vectors(x, out=tmp_path / "run", resume=True, **how)
    np.testing.assert_array_equal(whole.encode(x), resumed.encode(x))


def test_a_closed_form_does_not_resume_a_training(tmp_path: Path) -> None:
    x, y = planted(400)
    fit_vectors(x, pairs=y, solver="neural", steps=2, width=8, out=tmp_path / "run", **QUIET)
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(EigenmapError, match=r"run has the checkpoint.*train nothing.*force=True"):
        fit_vectors(x, pairs=y, resume=True, out=tmp_path / "run", **QUIET)
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


LABELS = np.arange(400) % 5
CHAIN = np.stack([np.arange(399), np.arange(1, 400)], axis=1)


@pytest.mark.parametrize(
    ("first", "then", "named"),
    [
        ({"labels": LABELS}, {"labels": (LABELS + (np.arange(400) < 50)) % 5}, "digest of the pairs"),
        ({"pairs": CHAIN}, {"pairs": CHAIN, "weights": 1.0 + LABELS[1:]}, "digest of the pairs"),
        ({"pairs": CHAIN, "unit": True}, {"pairs": CHAIN, "unit": False}, "unit was True and is now False"),
    ],
    ids=["labels", "weights", "unit"],
)
def test_a_neural_run_is_not_resumed_with_other_pairs(
    first: dict[str, Any], then: dict[str, Any], named: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(400, 6))
    how: dict[str, Any] = {"solver": "neural", "steps": 2, "width": 8, "out": tmp_path / "run", **QUIET}
    fit_vectors(x, **first, **how)
    with pytest.raises(EigenmapError, match=f"cannot be resumed: .*{named}"):
        fit_vectors(x, resume=True, **then, **how)


@pytest.mark.slow
def test_two_spaces_can_have_heads(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 6))
    turned = np.hstack([np.abs(x), 0.1 * rng.normal(size=(3000, 3))]) @ rng.normal(size=(9, 9))
    model = fit_vectors(
        x,
        pairs=turned,
        solver="neural",
        steps=150,
        lr=3e-2,
        batch_size=256,
        width=64,
        unit=False,
        out=tmp_path / "run",
        **QUIET,
    )
    again = em.Eigenmap.load(tmp_path / "run")
    assert model.source == "projector" and again.right is not None
    np.testing.assert_array_equal(model.right.encode(turned[:50]), again.right.encode(turned[:50]))  # type: ignore[union-attr]
    assert torch.isfinite(again.alignment.eigenvalues).all() and again.eigenvalues_[0] > 0.3


def test_a_neural_head_learns_from_a_second_model() -> None:
    """What z says of x is no linear function of x: neighbours as z sees them, found by codes of x alone."""
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 3000)
    far = 1 + rng.uniform(size=3000)
    x = np.stack([far * np.cos(angle), far * np.sin(angle)], 1) + 0.05 * rng.normal(size=(3000, 2))
    z = np.stack([np.cos(2 * angle), np.sin(2 * angle), 0.1 * rng.normal(size=3000)], 1)
    linear = fit_vectors(x, second=z, **QUIET)
    neural = fit_vectors(x, 6, second=z, solver="neural", steps=200, width=64, batch_size=256, dropout=0.0, **QUIET)
    assert neural.right is None and neural.training["vectors"]["winner"] == "neural"
    best = [max(scores_of(model)["ours"].values()) for model in (linear, neural)]
    assert best[1] > best[0] + 0.05


def test_row_numbers_stored_as_floats_are_no_vectors(tmp_path: Path) -> None:
    """What np.loadtxt or a table with a missing value makes of them; as vectors of two numbers they mean nothing."""
    x, y = planted(600)
    rows = np.stack([np.arange(600), np.arange(600)], axis=1)
    np.save(tmp_path / "rows.npy", rows.astype(float))
    wrong = r"rows.npy .*row numbers.*float64.*two_spaces"
    for others in (None, y):
        with pytest.raises(EigenmapError, match=wrong):
            fit_vectors(x, pairs=tmp_path / "rows.npy", others=others, **QUIET)
    assert fit_vectors(x, pairs=rows, others=y, **QUIET).training["vectors"]["relation"] == "index pairs"
    for partners in (y[:, :2], rows + np.array([0, 600.0])):  # no row numbers
        assert fit_vectors(x, pairs=partners, **QUIET).right is not None
    assert fit_vectors(x, pairs=tmp_path / "rows.npy", two_spaces=True, **QUIET).right is not None


def test_a_fit_without_training_spares_a_folder_in_which_another_trains(tmp_path: Path) -> None:
    x, y = planted(600)
    run = tmp_path / "run"
    with pytest.raises(StoppedError):
        fit_vectors(x, pairs=y, out=run, solver="neural", steps=30, batch_size=64, **{**QUIET, "progress": StopAt(10)})
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    training = claim(run)  # as a training in another process holds it
    with pytest.raises(EigenmapError, match=r"another process is training .*run"):
        fit_vectors(x, 8, pairs=y, out=run, force=True, **QUIET)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert "checkpoint.pt" in before and training is not None
    training.close()
    fit_vectors(x, 8, pairs=y, out=run, force=True, **QUIET)
    assert sorted(path.name for path in run.iterdir()) == ["model.json", "model.safetensors"]
