from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eigenmap import Eigenmap
from eigenmap.data import load_images
from eigenmap.evaluation.retrieval import retrieval
from eigenmap.search import CodeIndex
from tests.cli.run import refused, succeed


def test_a_run_alone(model_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    result = succeed("figures", model_dir, "--out", out)
    names = {"spectrum", "lengths", "training"}
    assert {file.name for file in out.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}
    assert set(result.out.split()) == {str(file) for file in out.iterdir()}
    for file in out.glob("*.svg"):
        assert ElementTree.parse(file).getroot().tag.endswith("svg")
    for file in out.glob("*.png"):
        with Image.open(file) as image:
            assert image.width > 300


def test_labelled_data_gives_the_rest(model_dir: Path, photos: Path, array_file: Path, tmp_path: Path) -> None:
    out, numbers = tmp_path / "figures", tmp_path / "numbers.json"
    succeed(
        *("figures", model_dir, "--data", photos, "--queries", array_file, "--only", "exciting,queries", "--top", 5),
        *("--only", "retrieval", "--features", 3, "--out", out, "--json", numbers),
    )
    assert {file.stem for file in out.iterdir()} == {"exciting", "queries", "retrieval"}
    held = json.loads(numbers.read_text())
    model, gallery, queries = Eigenmap.load(model_dir), load_images(photos, size=16), load_images(array_file)
    assert gallery.labels is not None and queries.labels is not None
    expected = retrieval(
        model.encode(queries),
        model.encode(gallery),
        queries.labels.in_classes(gallery.labels.names).matrix,
        gallery.labels.matrix,
        dims=[2, 4, 8],
        top=[5],
    )
    for row, reference in zip(held["retrieval"]["ours"], expected, strict=True):
        assert row == pytest.approx(reference, abs=1e-6)
    assert set(held["retrieval"]) == {"ours", "random", "encoder-pca", "pixel-pca", "pixels"}
    assert [feature["feature"] for feature in held["exciting"]] == [1, 2, 3]
    assert set(held["exciting"][0]["largest"]) <= set(gallery.ids)
    assert re.search("12 queries.*15 images", held["protocol"])
    assert re.search(">precision.*5</text>", (out / "retrieval.svg").read_text())


def test_data_without_labels_and_without_queries(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    result = succeed("figures", model_dir, "--data", photos / "disc", "--out", out)
    assert re.search("retrieval.*labels", result.err)
    assert {file.stem for file in out.iterdir()} == {"spectrum", "lengths", "training", "exciting", "queries"}
    message = refused("figures", model_dir, "--data", photos / "disc", "--only", "retrieval", "--quiet", "--out", out)
    assert re.search("retrieval.*RUN.*--data", message)


def test_optimised_images_are_made_only_if_named(model_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    succeed("figures", model_dir, "--only", "optimised", "--steps", 2, "--features", 2, "--out", out)
    assert {file.name for file in out.iterdir()} == {"optimised.svg", "optimised.png"}


def test_scores_need_no_run(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    file, out = tmp_path / "r.json", tmp_path / "figures"
    succeed("evaluate", "retrieval", model_dir, "--gallery", photos, "--top", 3, "--json", file)
    succeed("figures", "--scores", f"one={file}", "--scores", f"two={file}", "--scores", f"one={file}", "--out", out)
    text = (out / "scores.svg").read_text()
    assert ">one (2 runs)</text>" in text and ">two</text>" in text
    assert re.search(">mAP.*3</text>", text) and re.search(">precision.*3</text>", text)
    succeed("figures", "--scores", file, "--metric", "precision@3", "--out", out, "--force")
    text = (out / "scores.svg").read_text()
    assert ">r</text>" in text and "mAP" not in text


def test_nothing_is_replaced_without_force(model_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    succeed("figures", model_dir, "--only", "spectrum", "--out", out)
    assert "--force" in refused("figures", model_dir, "--only", "spectrum", "--out", out)
    succeed("figures", model_dir, "--only", "spectrum", "--out", out, "--force")
    page = tmp_path / "page.html"
    succeed("report", model_dir, "--out", page)
    assert "--force" in refused("report", model_dir, "--out", page)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["RUN", "--only", "spektrum"], "spektrum.*spectrum"),
        (["RUN", "--only", "exciting"], "exciting.*RUN.*--data"),
        (["RUN", "--only", "scores"], "scores.*--scores"),
        (["RUN", "--queries", "x"], "--queries.*--data"),
        (["RUN", "--labels", "x.csv"], "--labels.*--data"),
        (["RUN", "--data", "x", "--query-labels", "y.csv"], "--query-labels.*--queries"),
        (["RUN", "--metric", "accuracy"], "--metric.*--scores"),
        (["--data", "x"], "draw.*RUN"),
        (["--scores", "missing.json"], "missing.json.*read"),
        (["missing", "--only", "spectrum"], "missing.*model"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(
    args: list[str], message: str, model_dir: Path, tmp_path: Path
) -> None:
    given = [str(model_dir) if arg == "RUN" else arg for arg in args]
    assert re.search(message, refused("figures", *given, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_the_report_is_one_page_beside_the_model(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    numbers = tmp_path / "numbers.json"
    result = succeed("report", model_dir, "--data", photos, "--optimise", 2, "--out", page, "--json", numbers)
    assert result.out.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert len(headings) == 8
    assert {"Retrieval", "Eigenfunctions", "Spectrum", "Training", "Configuration"} < set(headings)
    assert re.search("3 queries.*12 images", text)
    assert "<script" not in text
    measured = json.loads(numbers.read_text())["retrieval"]["ours"][0]
    assert f"{measured['map_over_found@6']:.3f}" in text


def test_the_report_goes_beside_the_model(model_dir: Path) -> None:
    succeed("report", model_dir, "--quiet")
    page = model_dir / "report.html"
    assert "<h2>Training</h2>" in page.read_text(encoding="utf-8")
    page.unlink()


def test_a_report_of_nothing(tmp_path: Path) -> None:
    assert "model directory" in refused("report", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_vectors_and_of_an_index_shows_what_short_codes_keep(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", (rng.normal(size=(300, 12)) * np.arange(1, 13) ** -1.0).astype(np.float32))
    succeed("report", tmp_path / "x.npy", "--json", tmp_path / "x.json")
    page = (tmp_path / "x.html").read_text()
    assert re.search("<b>300</b>.*Recall by length.*<svg.*exact, full length", page, re.DOTALL)
    measured = json.loads((tmp_path / "x.json").read_text())
    assert measured["items"] == 300 and measured["prefixes"][0]["prefix"] > measured["prefixes"][0]["random"]
    succeed("index", tmp_path / "x.npy", "--out", tmp_path / "x.index")
    succeed("report", tmp_path / "x.index", "--out", tmp_path / "y.html")
    page = (tmp_path / "y.html").read_text()
    assert "x.index" in page and "eigenmap fit vectors orders them" in page
    codes = CodeIndex(12, fingerprint="f" * 64)
    codes.add(np.load(tmp_path / "x.npy"), range(300))
    codes.save(tmp_path / "codes.index")
    succeed("report", tmp_path / "codes.index", "--out", tmp_path / "z.html")
    page = (tmp_path / "z.html").read_text()
    assert "sorted by what pairs share" in page and "orders them" not in page  # they are in order already
    with CodeIndex.open(tmp_path / "x.index") as index:
        assert index.advice is None  # a report changes nothing
    for option, value in (("--data", tmp_path), ("--queries", tmp_path), ("--metric", "mrr")):
        assert f"{option} needs a model" in refused("report", tmp_path / "x.npy", "--force", option, value)
    assert "x.html" in refused("report", tmp_path / "x.npy")
