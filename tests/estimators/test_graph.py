from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from eigenmap import Eigenmap, EigenmapError, GraphEigenmap, NeuralEigenmap
from eigenmap.description import SEAL, description_text
from tests.graphs import blocks

GRAPH = blocks()
SETTINGS = {"width": 16, "blocks": 1, "batch_size": 64}


def estimator(**parameters: object) -> GraphEigenmap:
    return GraphEigenmap(4, steps=10, settings=SETTINGS, device="cpu", **parameters)  # type: ignore[arg-type]


def test_fit_and_transform_nodes_seen_and_unseen() -> None:
    fitted = estimator().fit((GRAPH.x, GRAPH.edge_index))
    codes = fitted.transform(GRAPH.x)
    assert codes.shape == (120, 4) and fitted.n_features_in_ == 8 and fitted.graph_["nodes"] == 120
    np.testing.assert_allclose(np.linalg.norm(codes, axis=1), 1, atol=1e-5)
    assert bool((np.diff(fitted.eigenvalues_[:2]) <= 0).all())
    assert fitted.transform(GRAPH.x[:1] + 1).shape == (1, 4)


def test_features_too_large_for_the_network_are_refused() -> None:
    fitted = estimator().fit((GRAPH.x, GRAPH.edge_index))
    x = np.array(GRAPH.x[:5], np.float32)
    x[3] = 3e38
    with pytest.raises(EigenmapError, match=r"row 3 .*not finite"):
        fitted.transform(x)


def test_verbose_may_be_a_level(capsys: pytest.CaptureFixture[str]) -> None:
    estimator(verbose=2).fit(GRAPH[:2])
    assert "120 nodes" in capsys.readouterr().out


def test_a_pipeline_learns_from_the_graph_and_predicts_from_features() -> None:
    pipeline = make_pipeline(estimator(), LogisticRegression()).fit(GRAPH[:2], GRAPH.y)
    assert pipeline.predict(GRAPH.x[:5] + 0.1).shape == (5,)


def test_other_representations_of_the_same_graph() -> None:
    expected = estimator().fit_transform((GRAPH.x, GRAPH.edge_index))
    np.testing.assert_array_equal(estimator().fit(GRAPH.x, edge_index=GRAPH.edge_index).transform(GRAPH.x), expected)
    graph = nx.Graph()
    graph.add_nodes_from((i, {"x": row}) for i, row in enumerate(GRAPH.x))
    graph.add_edges_from(GRAPH.edge_index.T.tolist())
    np.testing.assert_allclose(estimator().fit_transform(graph), expected, atol=1e-6)
    bare = nx.Graph(graph.edges)
    bare.add_nodes_from(range(120))
    order = list(bare.nodes)
    assert estimator().fit_transform(bare, x=GRAPH.x[order]).shape == (120, 4)
    A = scipy.sparse.coo_matrix((np.ones(GRAPH.edge_index.shape[1]), GRAPH.edge_index), shape=(120, 120)).tocsr()
    A.data[:] = 1  # in a matrix, edges listed twice count twice
    for fitted in (estimator().fit(A, x=GRAPH.x), estimator().fit(GRAPH.x, edge_index=A)):
        np.testing.assert_allclose(fitted.transform(GRAPH.x), expected, atol=1e-6)
    np.testing.assert_allclose(estimator().fit_transform(A, x=GRAPH.x), expected, atol=1e-6)


def test_a_model_that_averages_features_gets_the_edges_it_was_fitted_to() -> None:
    fitted = GraphEigenmap(4, steps=10, settings={**SETTINGS, "feature_hops": 1}, device="cpu")
    codes = fitted.fit_transform(GRAPH[:2])
    np.testing.assert_array_equal(codes, fitted.transform(GRAPH.x, GRAPH.edge_index))


def test_a_graph_of_few_nodes_needs_no_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    graph = GRAPH.x[:40], GRAPH.edge_index % 40
    few = GraphEigenmap(steps=2, settings=SETTINGS, device="cpu", verbose=True, random_state=None).fit(graph)
    assert few.transform(graph[0]).shape[1] <= 39
    assert re.search("40 nodes.*39 components", capsys.readouterr().out)
    seeded = [estimator(random_state=seed).fit_transform(graph) for seed in (3, np.int64(3))]
    np.testing.assert_array_equal(*seeded)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_components": 3}, "parameter"),
        ([("width", 3)], "dictionary"),
        ({"widht": 3}, "width"),
        ({"out": "runs"}, "setting 'out'"),
        ({"seed": 1}, "setting 'seed'"),
    ],
)
def test_settings_are_those_of_the_recipe(settings: dict[str, object], message: str) -> None:
    with pytest.raises(EigenmapError, match=message):
        GraphEigenmap(4, settings=settings).fit((GRAPH.x, GRAPH.edge_index))
    taken = GraphEigenmap(4, steps=9, settings={**SETTINGS, "steps": 3}, device="cpu").fit(GRAPH[:2])
    assert taken.model_.training["steps"] == 3


@pytest.mark.parametrize("parameters", [{}, {"weighting": "none", "normalize": False, "random_state": np.int64(3)}])
def test_what_is_loaded_does_what_was_saved(parameters: dict[str, object], tmp_path: Path) -> None:
    fitted = estimator(**parameters).fit((GRAPH.x, GRAPH.edge_index))
    place = fitted.save(tmp_path / "model")
    again = GraphEigenmap.load(place)
    assert again.get_params() == fitted.get_params()
    for x in (GRAPH.x, scipy.sparse.csr_matrix(GRAPH.x), GRAPH.x[:3] + 1):
        np.testing.assert_allclose(again.transform(x), fitted.transform(x), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(again.eigenvalues_, fitted.eigenvalues_)
    assert again.n_features_in_ == 8 and again.graph_ == fitted.graph_
    assert list(again.get_feature_names_out()) == list(fitted.get_feature_names_out())
    assert again.model_.training == json.loads(json.dumps(fitted.model_.training))
    np.testing.assert_array_equal(again.fit(GRAPH[:2]).transform(GRAPH.x), fitted.transform(GRAPH.x))
    codes = Eigenmap.load(place).encode(GRAPH.x)  # Eigenmap.load reads the directory too
    np.testing.assert_array_equal(codes, fitted.model_.encode(GRAPH.x))
    shown = again.set_output(transform="pandas").save(tmp_path / "shown")
    assert list(GraphEigenmap.load(shown).transform(GRAPH.x).columns) == list(again.get_feature_names_out())


def test_what_is_not_stored_is_passed_again(tmp_path: Path) -> None:
    place = estimator(random_state=RandomState(0)).fit(GRAPH[:2]).save(tmp_path / "model")
    with pytest.raises(EigenmapError, match="random_state=RandomState"):
        GraphEigenmap.load(place)
    assert GraphEigenmap.load(place, random_state=None).random_state is None
    with pytest.raises(EigenmapError, match=r"random_state.*seed"):
        GraphEigenmap.load(place, random_state="x")
    with pytest.raises(EigenmapError, match="steps"):
        GraphEigenmap.load(place, random_state=None, steps=3)


def test_other_models_and_wrong_values_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="not fitted"):
        estimator().save(tmp_path / "model")
    fitted = estimator().fit(GRAPH[:2])
    plain = fitted.model_.save(tmp_path / "plain")
    with pytest.raises(EigenmapError, match=r"Eigenmap\.load.*GraphEigenmap"):
        GraphEigenmap.load(plain)
    place = fitted.save(tmp_path / "model")
    with pytest.raises(EigenmapError, match=r"Eigenmap\.load.*NeuralEigenmap\.load"):
        NeuralEigenmap.load(place)
    with pytest.raises(EigenmapError, match="weighting"):
        estimator(weighting="x").fit(GRAPH[:2]).save(tmp_path / "other")
    text = (place / "model.json").read_text()
    for edit, message in {
        "name": r"estimator\.name .*GraphEigenmap",
        "parameters": r"estimator\.parameters",
        "own": r"estimator\.own ",
        "output": r"estimator\.output ",
    }.items():
        about = json.loads(text)
        del about[SEAL]
        about["training"]["estimator"][edit] = 3
        (place / "model.json").write_text(description_text(about))
        with pytest.raises(EigenmapError, match=f"{place}.*{message}"):
            GraphEigenmap.load(place)
    for parameters, message in (({"weighting": "x"}, "weighting"), ({"unheard": 1}, "unheard")):
        about = json.loads(text)
        del about[SEAL]
        about["training"]["estimator"]["parameters"] |= parameters
        (place / "model.json").write_text(description_text(about))
        with pytest.raises(EigenmapError, match=f"{place}.*{message}"):
            GraphEigenmap.load(place)
    (place / "model.json").write_text(text.replace('"diffusion"', '"none"'))
    with pytest.raises(EigenmapError, match=r"model\.json.*damaged"):
        GraphEigenmap.load(place)


def test_the_estimator_is_well_behaved() -> None:
    one = estimator(weighting="none", normalize=False)
    assert clone(one).get_params() == one.get_params()
    assert one.set_params(n_components=3).n_components == 3
    with pytest.raises(EigenmapError, match="not fitted"):
        one.transform(GRAPH.x)
    assert not hasattr(one, "eigenvalues_")
    with pytest.raises(NotFittedError):  # what scikit-learn's own tools look for
        one.get_feature_names_out()
    codes = one.fit((scipy.sparse.csr_matrix(GRAPH.x), GRAPH.edge_index)).transform(GRAPH.x)
    assert codes.shape == (120, 3)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.transform(GRAPH.x), codes)
    named = clone(one).set_output(transform="pandas").fit_transform(GRAPH[:2])
    assert list(named.columns) == ["grapheigenmap0", "grapheigenmap1", "grapheigenmap2"]
    pipeline = make_pipeline(one, StandardScaler())
    np.testing.assert_allclose(pipeline[-1:].fit_transform(codes).std(0), 1, atol=1e-4)
