from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

import eigenmap as em
from eigenmap import Eigenmap, EigenmapError, fit_graph, load_graph, save_graph
from eigenmap.data.graphs import adjacency
from eigenmap.evaluation.probe import fit_ridge
from eigenmap.fitting import evidence
from eigenmap.fitting.graph import _standardise, describe
from eigenmap.model import eigenmap as eigenmap_model
from eigenmap.networks import ResidualMLP
from eigenmap.recipes import graph as graph_recipes
from eigenmap.relations.diffusion import diffuse
from tests.graphs import blocks

GRAPH = blocks()
SMALL: dict[str, Any] = {"width": 16, "blocks": 1, "batch_size": 64, "device": "cpu", "progress": False}


def fit(graph: object = (GRAPH.x, GRAPH.edge_index), n_components: int = 6, **settings: Any) -> Eigenmap:
    return fit_graph(graph, n_components, **{**SMALL, "steps": 8, **settings})


LARGE = blocks(900)
SEEN = 600  # the rest is not used in training


@pytest.fixture(scope="module")
def trained() -> Eigenmap:
    edges = LARGE.edge_index[:, (LARGE.edge_index < SEEN).all(0)]
    return fit((LARGE.x[:SEEN], edges), steps=150)


def test_the_blocks_of_unseen_nodes_are_found_from_their_features(trained: Eigenmap) -> None:
    codes, y = torch.from_numpy(trained.encode(LARGE.x, dim=2, weighting="none")), torch.from_numpy(LARGE.y)
    assert codes.shape == (900, 2) and codes.dtype == torch.float32
    probe = fit_ridge(codes[:SEEN], y[:SEEN])
    assert probe.accuracy(codes[SEEN:], y[SEEN:]) > 0.75
    # Three blocks: besides the constant, the ends of an edge share two functions.
    assert trained.eigenvalues_[1] > 0.3 > trained.eigenvalues_[2]


def test_on_a_cpu_few_nodes_pass_at_a_time(trained: Eigenmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenmap_model, "NODES_ON_CPU", 200)
    assert [len(rows) for rows in trained.raw(torch.from_numpy(LARGE.x), batch_size=4096)] == [200] * 4 + [100]
    assert [len(rows) for rows in trained.raw(torch.from_numpy(LARGE.x), batch_size=450)] == [200] * 4 + [100]
    assert len(next(trained.raw(torch.from_numpy(LARGE.x), batch_size=100))) == 100


def test_features_may_keep_their_scale() -> None:
    scaled, kept = (fit(steps=1, standardise=standardise).network.encoder for standardise in (True, False))
    assert scaled.standardised and not kept.standardised


def test_what_was_found_in_the_graph_is_reported_and_kept(trained: Eigenmap) -> None:
    about = trained.training["graph"]
    assert about["nodes"] == SEEN and about["components"] >= 1
    assert 2 <= about["positive_eigenvalues"] <= 4
    assert 60 < trained.training["held_out_edges"] < 180


def test_sentences_about_the_graph() -> None:
    x = np.eye(9, dtype=np.float32)
    edges = np.array([[0, 0, 1, 1, 2, 4, 5, 6, 6], [1, 1, 2, 1, 0, 5, 6, 4, 4]])
    said: list[str] = []
    fit((x, edges), 2, say=said.append, steps=2)
    assert re.search("9 nodes, 6 edges, 2 .*components.* 2", said[0])
    assert re.search("3 nodes.*edge", said[1]) and re.search("2 edges.*once", said[2])
    assert "1 self-loop" in said[3]
    assert "training edges" in said[-1]  # of six
    fit((x, edges, np.ones(9)), 2, say=said.append, steps=2)
    assert any(re.search("2 edges.*once.*weights", line) for line in said)
    fit(say=said.append, steps=2)
    assert "held-out edges" in said[-1]
    assert "eigenvalues" in said[-1]


def test_features_are_scaled_by_their_own_size() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=50) * 1e9, rng.normal(size=50), np.full(50, 0.1), 5e6 + rng.normal(size=50)]
    x = torch.from_numpy(np.stack(parts, 1))
    encoder = ResidualMLP(4, width=8)
    _standardise(encoder, x)
    expected = 1 / x.std(0, correction=0)
    torch.testing.assert_close(encoder.scale.double()[[0, 1, 3]], expected[[0, 1, 3]], rtol=1e-5, atol=0)
    assert encoder.scale[2] == 0
    _standardise(encoder, torch.tensor([[1.0], [1 + 2**-23]]))  # one unit in the last place
    assert encoder.scale.tolist() == [0, 0, 0, 0]


def test_a_hundred_million_nodes_are_numbered_correctly() -> None:
    # One column is enough. float32 would round the last row number up.
    encoder = ResidualMLP(1, width=8)
    _standardise(encoder, torch.ones(1, 1).expand(100_000_000, 1))
    assert encoder.scale.tolist() == [0]


def test_describe_counts_kept_self_loops_once() -> None:
    walk = em.load_graph((np.eye(3), [[0, 0], [0, 1]])).walk(self_loops="keep")
    assert describe(walk)["edges"] == 2
    assert describe(walk)["isolated"] == 1


def test_the_same_seed_gives_the_same_model() -> None:
    first, second, third = fit(), fit(), fit(seed=1)
    np.testing.assert_array_equal(first.encode(GRAPH.x), second.encode(GRAPH.x))
    assert not np.array_equal(first.encode(GRAPH.x), third.encode(GRAPH.x))


def test_saved_and_loaded_it_gives_the_same_codes(trained: Eigenmap, tmp_path: Path) -> None:
    trained.save(tmp_path / "run")
    loaded = Eigenmap.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.encode(GRAPH.x), trained.encode(GRAPH.x))
    assert (loaded.input, loaded.encoder, loaded.training) == (trained.input, trained.encoder, trained.training)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.json", "model.safetensors"]
    assert json.loads((tmp_path / "run" / "model.json").read_text())["input"] == {"n_features": 8}


def test_sparse_and_dense_features_of_new_nodes(trained: Eigenmap) -> None:
    kept = np.where(np.abs(GRAPH.x) > 1, GRAPH.x, 0).astype(np.float32)
    model = fit((scipy.sparse.csr_matrix(kept), GRAPH.edge_index))
    dense, sparse = model.encode(kept), model.encode(scipy.sparse.csr_matrix(kept))
    np.testing.assert_allclose(dense, sparse, atol=1e-5)
    # After training on dense features, sparse ones get the same scale.
    np.testing.assert_array_equal(trained.encode(scipy.sparse.csr_matrix(kept)), trained.encode(kept))
    for nobody in (np.empty((0, 8), np.float32), scipy.sparse.csr_matrix((0, 8))):
        assert trained.encode(nobody).shape == (0, 6)


@pytest.mark.parametrize(
    "settings",
    [
        {"hops": 2},
        {"start": "uniform"},
        {"start": "balanced"},
        {"go_on": 0.6, "walks": 3},
        {"lazy": 0.3, "teleport": 0.0},
        {"directed": "bipartite"},
        {"self_loops": "keep"},
        {"held_out": 0.0},
        {"objective": "scl"},
        {"objective": "nested", "codes": "projector"},
        {"sampler": "node-blocks", "objective": "neuralef-unordered", "batch_size": 60},
        {"sampler": "node-blocks", "objective": "neuralef", "objective_options": {"alpha": "paper"}, "batch_size": 60},
        {"feature_dropout": 0.5},
    ],
)
def test_every_variant_trains(settings: dict[str, Any]) -> None:
    model = fit(**settings)
    codes = model.encode(GRAPH.x)
    assert codes.shape == (120, model.n_components) and bool(np.isfinite(codes).all())
    recipe = model.training["recipe"]
    assert all(recipe[name] == value for name, value in settings.items())


@pytest.mark.slow
def test_large_graphs_are_aligned_on_drawn_walks(trained: Eigenmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "TABLE_NODES", 10)
    edges = LARGE.edge_index[:, (LARGE.edge_index < SEEN).all(0)]
    drawn = fit((LARGE.x[:SEEN], edges), steps=150)
    np.testing.assert_allclose(drawn.eigenvalues_[:2], trained.eigenvalues_[:2], atol=0.1)


@pytest.mark.parametrize("settings", [{"objective": "ritz-trace", "codes": "projector"}, {"codes": "encoder"}])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_features_without_an_order_of_their_own_are_always_sorted(settings: dict[str, Any], seed: int) -> None:
    model = fit(n_components=10, steps=60, held_out=0.0, seed=seed, **settings)
    assert not model.alignment.own_order
    beyond_doubt = model.eigenvalues_[model.eigenvalues_ > 4 * model.alignment.noise]
    assert len(beyond_doubt) >= 2 and bool((np.diff(beyond_doubt) <= 0).all())


@pytest.mark.parametrize("settings", [{"held_out": 0.0}, {"held_out": 0.4, "hops": 2}])
def test_neighbours_are_compared_among_different_nodes(settings: dict[str, Any]) -> None:
    """Copies of a node are all equally near, so neighbours among copies would not agree."""
    model = fit(n_components=10, steps=60, **settings)
    assert max(model.alignment.agreement.values()) > 0.2


def test_half_of_the_features_are_hidden_where_most_are_zero() -> None:
    words = scipy.sparse.random(120, 60, 0.05, "csr", random_state=0) + scipy.sparse.eye(120, 60, format="csr")
    full = scipy.sparse.csr_matrix(GRAPH.x)
    edges = GRAPH.edge_index
    found = [
        fit(graph).training["recipe"]["feature_dropout"]
        for graph in ((words, edges), (words.toarray(), edges), (full, edges), (GRAPH.x, edges))
    ]
    assert found == [0.5, 0.5, 0.0, 0.0]
    assert fit((words, edges), feature_dropout=0.1).training["recipe"]["feature_dropout"] == 0.1


def test_words_keep_their_scale_dense_or_sparse() -> None:
    words = scipy.sparse.random(120, 60, 0.05, "csr", random_state=0) + scipy.sparse.eye(120, 60, format="csr")
    codes = [fit((x, GRAPH.edge_index), feature_dropout=0.0).encode(words) for x in (words, words.toarray())]
    np.testing.assert_allclose(*codes, atol=1e-4)


def test_the_network_is_wide_where_dense_features_belong_to_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    words = scipy.sparse.random(120, 60, 0.05, "csr", random_state=0) + scipy.sparse.eye(120, 60, format="csr")
    edges = GRAPH.edge_index

    def width(x: object, asked: int | None = None) -> object:
        model = fit((x, edges), steps=2, width=asked)
        assert model.encoder.width == model.training["recipe"]["width"]
        return model.encoder.width

    assert width(GRAPH.x) == 256
    monkeypatch.setattr(graph_recipes, "MANY_NODES", 120)
    assert width(GRAPH.x) == 1024 and width(words) == 256
    assert width(GRAPH.x, 32) == 32


def test_small_graphs_are_trained_for_fewer_steps_unless_a_length_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_recipes, "FEWEST_STEPS", 3)
    monkeypatch.setattr(graph_recipes, "MOST_PASSES", 1)
    edges = describe(load_graph((GRAPH.x, GRAPH.edge_index)).walk())["edges"]
    said: list[str] = []
    model = fit_graph((GRAPH.x, GRAPH.edge_index), 6, **SMALL, say=said.append)
    steps = -(-edges // SMALL["batch_size"])
    assert model.training["steps"] == steps < 100 and any(f"{steps} steps instead of 1,500" in line for line in said)
    assert fit(steps=5).training["steps"] == 5
    recipe = graph_recipes.GraphRecipe(steps=7)
    assert fit_graph((GRAPH.x, GRAPH.edge_index), 6, **SMALL, recipe=recipe).training["steps"] == 7


def test_longer_walks_are_those_of_the_diffused_graph_and_the_graph_itself_is_described() -> None:
    model = fit(go_on=0.6, walks=2)
    same = fit(diffuse(em.load_graph((GRAPH.x, GRAPH.edge_index)), 0.6, 2))
    np.testing.assert_array_equal(model.encode(GRAPH.x), same.encode(GRAPH.x))
    assert model.training["graph"]["edges"] == fit().training["graph"]["edges"] < same.training["graph"]["edges"]


def test_weighted_edges_count_by_their_weight() -> None:
    weights = np.where(GRAPH.y[GRAPH.edge_index[0]] == GRAPH.y[GRAPH.edge_index[1]], 1.0, 0.05)
    plain, weighted = fit(steps=100), fit((GRAPH.x, GRAPH.edge_index, weights), steps=100)
    # There are hardly any edges between blocks left, so the ends of an edge share more.
    assert weighted.eigenvalues_[:2].sum() > plain.eigenvalues_[:2].sum()


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e200, 1e308])
def test_only_ratios_of_weights_matter_however_large_or_small(scale: float) -> None:
    ones = np.ones(GRAPH.edge_index.shape[1])
    codes = [fit((GRAPH.x, GRAPH.edge_index, weights)).encode(GRAPH.x) for weights in (ones, scale * ones)]
    np.testing.assert_allclose(*codes, atol=1e-5)


def test_edges_of_hardly_any_weight_can_be_held_out() -> None:
    for heavy, light in ((4, 1e-30), (1, 1e-300)):
        weights = np.where(np.arange(GRAPH.edge_index.shape[1]) < heavy, 1.0, light)
        model = fit((GRAPH.x, GRAPH.edge_index, weights))
        assert np.isfinite(model.encode(GRAPH.x)).all() and np.isfinite(model.eigenvalues_).all()


def test_node_blocks_have_no_teleport_by_default() -> None:
    assert fit(sampler="node-blocks", batch_size=40).training["recipe"]["teleport"] == 0.0


def test_a_memory_mapped_folder_gives_the_model_of_the_file(tmp_path: Path) -> None:
    graph = em.load_graph((GRAPH.x, GRAPH.edge_index))
    folder = em.save_graph(graph, tmp_path / "graph")
    np.testing.assert_allclose(fit(folder).encode(GRAPH.x), fit(graph).encode(GRAPH.x), atol=1e-6)


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    class Cut(Exception):
        pass

    class Stop:
        def start(self, step: int, steps: int) -> None: ...
        def stop(self) -> None: ...
        def report(self, record: Any, check: bool) -> None: ...
        def advance(self, step: int) -> None:
            if step == 7:
                raise Cut

    with pytest.raises(Cut):
        fit(out=tmp_path / "run", steps=10, progress=Stop())
    resumed = fit(out=tmp_path / "run", steps=10, resume=True)
    whole = fit(steps=10)
    np.testing.assert_array_equal(resumed.encode(GRAPH.x), whole.encode(GRAPH.x))
    with pytest.raises(EigenmapError, match=r"hops|another"):
        fit(out=tmp_path / "run", steps=10, resume=True, hops=2)
    renamed = np.arange(120)[::-1]
    for other in ((GRAPH.x, renamed[GRAPH.edge_index]), (GRAPH.x[renamed], GRAPH.edge_index)):  # of the same size
        with pytest.raises(EigenmapError, match="graph"):
            fit(other, out=tmp_path / "run", steps=10, resume=True)
    with pytest.raises(EigenmapError, match=r"exists.*empty"):
        fit(out=tmp_path / "run")


@pytest.mark.parametrize(
    "settings", [{"hops": 3}, {"teleport": 2.0}, {"teleport": 0.5, "lazy": 0.5}, {"held_out": 0.9}, {"batch_size": 1}]
)
def test_settings_are_refused_before_a_large_graph_is_read(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(EigenmapError) as error:
        fit(tmp_path / "not-there.npz", **settings)
    assert "not-there" not in str(error.value)


def test_minutes_count_for_a_run_that_was_killed_before_its_first_checkpoint(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()  # left behind by such a run
    model = fit_graph(GRAPH[:2], 4, minutes=0.002, resume=True, out=tmp_path / "run", say=said.append, **SMALL)
    assert any("0.002" in line for line in said)
    assert 1 <= model.training["steps"] < 1500  # the recipe has 1,500


def test_minutes_become_steps() -> None:
    said: list[str] = []
    model = fit_graph((GRAPH.x, GRAPH.edge_index), 4, minutes=0.002, say=said.append, **SMALL)
    assert 1 <= model.training["steps"] < 1500
    assert any("0.002" in line for line in said)


@pytest.mark.parametrize(
    ("graph", "settings", "message"),
    [
        ((GRAPH.x[:100], GRAPH.edge_index), {}, "0 to 99"),
        ((np.where(GRAPH.x > 2, np.nan, GRAPH.x), GRAPH.edge_index), {}, "NaN"),
        ((GRAPH.x, np.empty((2, 0), np.int64)), {}, "no edges"),
        ((GRAPH.x, np.array([[3], [3]])), {}, "no edges"),
        ((np.ones((120, 3)), GRAPH.edge_index), {}, "same features"),
        ((scipy.sparse.csr_matrix(np.ones((120, 3))), GRAPH.edge_index), {}, "same features"),
        ((scipy.sparse.csr_matrix((120, 3)), GRAPH.edge_index), {}, "same features"),
        ((GRAPH.x, GRAPH.edge_index.T), {}, "transpose it"),
        ((np.empty((0, 3)), np.empty((2, 0), np.int64)), {}, "empty"),
        ((GRAPH.x, GRAPH.edge_index), {"n_components": 500}, "500 components.*120"),
        ((GRAPH.x[:2], np.array([[0], [1]])), {"n_components": 1}, "2 nodes.*few"),
        ((GRAPH.x, GRAPH.edge_index), {"objective": "best"}, "objective 'best'"),
        ((GRAPH.x, GRAPH.edge_index), {"steps": 0}, "steps"),
        ((GRAPH.x, GRAPH.edge_index), {"recipe": "gpu"}, "Unknown recipe"),
        ((GRAPH.x, GRAPH.edge_index), {"teleport": 2.0}, "teleport.*probability"),
        ((GRAPH.x, GRAPH.edge_index), {"teleport": 0.5, "lazy": 0.5}, "together.*1"),
        ((GRAPH.x, GRAPH.edge_index), {"batch_size": 1}, "batch_size.*2"),
        ((GRAPH.x, GRAPH.edge_index), {"recipe": None}, "recipe None"),
        ((GRAPH.x, GRAPH.edge_index), {"seed": "a"}, "seed"),
        ((GRAPH.x, GRAPH.edge_index), {"seed": 1.5}, "seed"),
        ((GRAPH.x, GRAPH.edge_index), {"seed": 2**70}, "seed"),
        ((GRAPH.x, GRAPH.edge_index), {"sampler": "node-blocks", "hops": 2}, "as published"),
        ((GRAPH.x, GRAPH.edge_index), {"sampler": "node-blocks", "teleport": 0.3}, "as published"),
        ((GRAPH.x, GRAPH.edge_index), {"sampler": "node-blocks", "objective": "vicreg"}, "Gram"),
        ((GRAPH.x, GRAPH.edge_index), {"go_on": 1.0}, r"go_on.*0\.9"),
        ((GRAPH.x, GRAPH.edge_index), {"go_on": 0.5, "directed": "bipartite"}, "walks.*directed"),
    ],
)
def test_bad_input_ends_in_one_sentence(graph: object, settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=message):
        fit(graph, out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()


def test_too_many_components_by_default_are_cut() -> None:
    said: list[str] = []
    model = fit_graph((GRAPH.x[:40], GRAPH.edge_index % 40), say=said.append, **{**SMALL, "steps": 3})
    assert model.n_components <= 39
    assert any(re.search("40 nodes.*39 components", line) for line in said)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 9)), "8 features.*9"),
        (np.zeros((0, 9)), "8 features.*9"),
        (np.full((3, 8), 1e300), "large.*float32"),
        (np.full((3, 8), np.nan), "NaN"),
        (np.zeros(8), "matrix"),
        ([["a"] * 8], "numbers"),
    ],
)
def test_bad_features_of_new_nodes(trained: Eigenmap, x: object, message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        trained.encode(x)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"t": float("nan")}, r"\bt .*number"),
        ({"t": -1}, r"\bt .*0"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_bad_settings_of_codes(trained: Eigenmap, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        trained.encode(LARGE.x, **settings)


def test_a_model_of_nodes_takes_no_images(trained: Eigenmap) -> None:
    with pytest.raises(EigenmapError, match=r"model.*nodes"):
        trained.image  # noqa: B018


def test_features_are_scaled_strip_by_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(10_000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 50.0, 1e-3]) + 7
    x[0] = 1e6  # the first row must not affect the others
    encoder = ResidualMLP(3, width=8)
    read: list[int] = []

    class Rows:
        """Memory map that records how much is read at a time."""

        dtype, device, is_floating_point = x.dtype, x.device, staticmethod(x.is_floating_point)

        def __len__(self) -> int:
            return len(x)

        def __getitem__(self, rows: torch.Tensor) -> torch.Tensor:
            read.append(len(rows))
            return x[rows]

    _standardise(encoder, Rows())  # type: ignore[arg-type]
    torch.testing.assert_close(encoder.scale.double(), 1 / x.double().std(0, correction=0), rtol=1e-5, atol=0)
    torch.testing.assert_close(encoder.shift.double(), x.double().mean(0), rtol=1e-5, atol=0)
    assert max(read) < 5000


def test_the_message_names_the_pairs_that_eigenvalues_come_from() -> None:
    said: list[str] = []
    fit(say=said.append, sampler="node-blocks", objective="neuralef")
    assert "blocks" in said[-1]
    fit(say=said.append, go_on=0.5)
    assert "ends of walks" in said[-1]


def test_large_numbers_give_the_same_code_dense_and_sparse() -> None:
    x = np.concatenate([GRAPH.x.astype(np.float64), 1.6e9 + np.arange(len(GRAPH.x))[:, None]], 1)
    model = fit((x, GRAPH.edge_index))
    np.testing.assert_allclose(model.encode(scipy.sparse.csr_matrix(x)), model.encode(x), atol=1e-5)


def test_reading_is_reported_from_beginning_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjacency, "PIECE", 100)
    path = tmp_path / "graph.npz"
    np.savez(path, x=GRAPH.x, edge_index=GRAPH.edge_index)
    for source in (path, save_graph(load_graph(path), tmp_path / "folder")):
        ticks: list[tuple[int, int]] = []
        fit(source, steps=2, reading=lambda *given, ticks=ticks: ticks.append(given))
        done = [each for each, _ in ticks]
        assert done == sorted(done) and ticks[-1] == (3000, 3000) and done[0] <= 1000 and len(ticks) >= 2
