from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap
from eigenmap.data.graphs import adjacency
from tests.cli.run import refused, succeed
from tests.graphs import blocks

SMALL = ("--width", 16, "--batch-size", 64, "--set", "blocks=1", "--device", "cpu")


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = blocks()
    file = tmp_path_factory.mktemp("graphs") / "graph.npz"
    np.savez(file, x=graph.x, edge_index=graph.edge_index, y=graph.y)
    return file


@pytest.fixture(scope="module")
def run_dir(graph_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "run"
    result = succeed("fit", "graph", graph_file, "--out", out, "-k", 5, "--steps", 10, *SMALL)
    assert "120 nodes" in result.err and f"eigenmap embed {out}" in result.err and result.out == ""
    return out


def test_a_model_with_every_option(graph_file: Path, tmp_path: Path) -> None:
    options = ("--hops", 2, "--start", "uniform", "--directed", "symmetrise", "--sampler", "edges", "--lr", 0.001)
    others = ("--objective", "scl", "--go-on", 0.5, "--set", "feature_dropout=0.2", "--seed", 3, "--quiet")
    result = succeed(
        "fit", "graph", graph_file, "-o", tmp_path / "run", "-k", 4, "--steps", 3, *SMALL, *options, *others
    )
    assert result.err == ""
    recipe = Eigenmap.load(tmp_path / "run").training["recipe"]
    assert (recipe["hops"], recipe["start"], recipe["objective"], recipe["lr"]) == (2, "uniform", "scl", 0.001)
    assert (recipe["feature_dropout"], recipe["go_on"]) == (0.2, 0.5)


def test_features_become_codes(run_dir: Path, graph_file: Path, tmp_path: Path) -> None:
    x = blocks(seed=1).x
    np.save(tmp_path / "new.npy", x)
    result = succeed("embed", run_dir, tmp_path / "new.npy", "--out", tmp_path / "codes.npy", "--dim", 3)
    assert re.search("120 codes.*3 features", result.err)
    codes = np.load(tmp_path / "codes.npy")
    np.testing.assert_allclose(codes, Eigenmap.load(run_dir).encode(x, dim=3), atol=1e-5)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["codes.npy", "new.npy"]
    (tmp_path / "codes.ids.json").write_text("names of images that codes.npy held before")
    again = ("embed", run_dir, tmp_path / "new.npy", "--out", tmp_path / "codes.npy", "--quiet")
    assert re.search("exists.*--force", refused(*again))
    succeed(*again, "--force")
    assert not (tmp_path / "codes.ids.json").exists()
    succeed("embed", run_dir, graph_file, "--out", tmp_path / "codes.npz", "--quiet")
    with np.load(tmp_path / "codes.npz", allow_pickle=False) as archive:
        np.testing.assert_allclose(archive["codes"], Eigenmap.load(run_dir).encode(blocks().x), atol=1e-5)


def test_info_says_what_it_is(run_dir: Path) -> None:
    text = succeed("info", run_dir).out
    assert "8 features each" in text and re.search("perceptron.*16.*1", text)
    assert "120 nodes" in text and "held out" in text


def test_the_run_can_be_resumed_and_replaced(graph_file: Path, tmp_path: Path) -> None:
    arguments = ("fit", "graph", graph_file, "--out", tmp_path / "run", "-k", 4, "--steps", 3, *SMALL, "--quiet")
    succeed(*arguments)
    before = json.loads((tmp_path / "run" / "model.json").read_text())["weights_sha256"]
    assert re.search("exists.*empty", refused(*arguments))
    succeed(*arguments, "--resume")
    assert json.loads((tmp_path / "run" / "model.json").read_text())["weights_sha256"] == before
    succeed(*arguments, "--force", "--seed", 1)
    assert re.search("--resume.*--force", refused(*arguments, "--force", "--resume"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--set", "hopps=2"), "hops"),
        (("--set", "out=x"), "setting 'out'"),
        (("--recipe", "gpu"), "Unknown recipe"),
        (("--sampler", "rows"), "sampler"),
        (("-k", 1000), "learned.*120 nodes"),
    ],
)
def test_mistakes_end_in_one_sentence(
    graph_file: Path, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    assert re.search(message, refused("fit", "graph", graph_file, "--out", tmp_path / "run", *options))
    assert not (tmp_path / "run").exists()


def test_files_that_are_none_or_do_not_fit(run_dir: Path, tmp_path: Path) -> None:
    assert re.search(r"none\.npz", refused("fit", "graph", tmp_path / "none.npz", "--out", tmp_path / "run"))
    np.save(tmp_path / "wide.npy", np.zeros((3, 9), np.float32))
    assert re.search("8 features.*9", refused("embed", run_dir, tmp_path / "wide.npy", "-o", tmp_path / "c.npy"))
    (tmp_path / "bad.npy").write_bytes(b"no array")
    assert re.search(r"bad\.npy.*read", refused("embed", run_dir, tmp_path / "bad.npy", "-o", tmp_path / "c.npy"))
    assert not (tmp_path / "c.npy").exists()


def test_verbs_for_images_say_that_this_is_no_model_of_images(run_dir: Path, photos: Path, tmp_path: Path) -> None:
    assert re.search("model.*nodes", refused("index", run_dir, photos, "--out", tmp_path / "index"))


def test_the_missing_word_is_named(graph_file: Path) -> None:
    assert "images, graph, vectors or towers" in refused("fit", graph_file)


def test_the_codes_of_nodes_are_not_made_on_a_cluster(run_dir: Path, graph_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "codes.npy"
    assert re.search("--engine ray.*images", refused("embed", run_dir, graph_file, "--out", out, "--engine", "ray"))
    assert not out.exists()


def test_on_a_terminal_reading_has_a_bar(graph_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(adjacency, "PIECE", 100)
    result = succeed(
        "fit", "graph", graph_file, "--out", tmp_path / "run", "-k", 5, "--steps", 3, *SMALL, terminal=True
    )
    assert "reading" in result.err and result.err.index("reading") < result.err.index("training")
