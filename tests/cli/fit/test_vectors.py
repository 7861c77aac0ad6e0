"""`eigenmap fit vectors`, and every verb that takes its models."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import eigenmap as em
from eigenmap import EigenmapError
from eigenmap.service.explorer import Explorer
from tests.cli.run import refused, succeed
from tests.linear.planted import planted, two_spaces


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of 24 numbers and their partners, and pairs of two spaces."""
    folder = tmp_path_factory.mktemp("vectors")
    x, y = planted(1200)
    u, v = two_spaces(1200)
    rows = np.arange(1200)
    arrays = {
        "x": x,
        "y": y,
        "half": y.astype(np.float16),
        "u": u,
        "v": v,
        "few": x[:5],
        "few-y": y[:5],
        "pairs": np.stack([rows[:-1], rows[1:]], 1),
        "weights": np.linspace(0.5, 1, 1199),
        "labels": rows % 5,
        "shorter": y[:-1],
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "labels.txt").write_text("".join(f"c{row % 5}\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def run(files: Path) -> Path:
    succeed("fit", "vectors", files / "x.npy", "--pairs", files / "y.npy", "--out", files / "run", "-k", 12)
    return files / "run"


@pytest.fixture(scope="module")
def both(files: Path) -> Path:
    succeed("fit", "vectors", files / "u.npy", "--pairs", files / "v.npy", "--out", files / "both")
    return files / "both"


def test_the_table_says_who_won_and_how_short_a_code_may_be(files: Path, tmp_path: Path) -> None:
    result = succeed(
        "fit",
        "vectors",
        files / "x.npy",
        "--pairs",
        files / "half.npy",
        "-o",
        tmp_path / "run",
        "--json",
        tmp_path / "j",
    )
    assert all(word in result.out for word in ("features", "ours", "PCA", "prefix", "nDCG@10"))
    assert "a linear map fitted to the pairs" in result.err and "features keep 95%" in result.err
    told = json.loads((tmp_path / "j").read_text())
    assert told["winner"] == "pairs" and told["scores"]["ours"]["8"] > told["scores"]["pca"]["8"]
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize(
    "relation",
    [
        ("--views", "y.npy", "half.npy"),
        ("--neighbours",),
        ("--second", "v.npy"),
        ("--lag", 1),
        ("--labels", "labels.npy"),
        ("--labels", "labels.txt"),
        ("--pairs", "pairs.npy", "--weights", "weights.npy"),
        ("--pairs", "pairs.npy", "--others", "y.npy"),
        ("--pairs", "y.npy", "--two-spaces"),
        ("--pairs", "y.npy", "--solver", "neural", "--steps", 3, "--batch-size", 64, "--device", "cpu"),
    ],
    ids=lambda relation: relation[0][2:] + str(len(relation)),
)
def test_every_relation(files: Path, tmp_path: Path, relation: tuple[object, ...]) -> None:
    words = [files / word if str(word).endswith((".npy", ".txt")) else word for word in relation]
    succeed("fit", "vectors", files / "x.npy", *words, "--out", tmp_path / "run", "-q")
    assert em.Eigenmap.load(tmp_path / "run").kind == "vectors"


def test_codes_of_embed_are_those_of_the_model(files: Path, run: Path, tmp_path: Path) -> None:
    succeed("embed", run, files / "y.npy", "--out", tmp_path / "codes.npy", "--dim", 6)
    wanted = em.Eigenmap.load(run).encode(np.load(files / "y.npy"), dim=6)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), wanted)


def test_an_index_of_vectors_is_searched_by_vectors(files: Path, run: Path, tmp_path: Path) -> None:
    index = tmp_path / "y.index"
    succeed("index", run, files / "y.npy", "--out", index)
    succeed("search", index, files / "few.npy", "--top", 3, "--json", tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text())["results"]
    model = em.Eigenmap.load(run)
    similarity = model.encode(np.load(files / "few.npy")) @ model.encode(np.load(files / "y.npy")).T
    nearest = [[str(row) for row in order[:3]] for order in np.argsort(-similarity)]
    assert [[hit["id"] for hit in each["found"]] for each in found] == nearest
    assert "Recommended" in succeed("advise", index).out
    assert "groups" in succeed("duplicates", index).err
    explorer = Explorer.open(index)
    assert len(explorer.overview) == 1200 and explorer.eigenvalues() is not None
    with pytest.raises(EigenmapError, match="takes vectors"):
        explorer.encode(b"picture", 1000)
    assert "without damage" in succeed("verify", index).out


def test_an_index_can_be_added_to(files: Path, run: Path, tmp_path: Path) -> None:
    index = tmp_path / "few.index"
    succeed("index", run, files / "few.npy", "--out", index)
    assert "5 added" in succeed("index", run, files / "few-y.npy", "--out", index, "--add").err


def test_two_spaces_need_a_side(files: Path, both: Path, tmp_path: Path) -> None:
    for verb in (
        ("embed", both, files / "u.npy", "--out", tmp_path / "codes.npy"),
        ("index", both, files / "v.npy", "--out", tmp_path / "v.index"),
        ("export", both, "--to", tmp_path / "m.onnx"),
    ):
        assert "two spaces" in refused(*verb)
    succeed("index", both, files / "v.npy", "--side", "right", "--out", tmp_path / "v.index")
    assert "two spaces" in refused("search", tmp_path / "v.index", files / "u.npy")
    succeed("search", tmp_path / "v.index", files / "u.npy", "--side", "left", "--top", 1, "-q")
    assert "20 numbers" in refused("embed", both, files / "v.npy", "--side", "left", "--out", tmp_path / "codes.npy")
    assert not (tmp_path / "codes.npy").exists()


def test_info_and_report_know_vectors(files: Path, run: Path, both: Path, tmp_path: Path) -> None:
    text = succeed("info", run).out
    assert "partners" in text and "of 24 numbers" in text and "nDCG@10" in text
    assert "(left) and 12 (right)" in succeed("info", both).out
    succeed("report", run, "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 1000


def test_advice_is_the_shortest_length_that_keeps_its_share(run: Path, tmp_path: Path) -> None:
    text = succeed("advise", run, "--keep", 0.9, "--json", tmp_path / "advice.json", "--items", "1e6").out
    advice = json.loads((tmp_path / "advice.json").read_text())
    ours = {int(d): score for d, score in advice["scores"]["ours"].items()}
    full = ours[max(ours)]
    assert ours[advice["dim"]] >= 0.9 * full and f"--dim {advice['dim']}" in text and "1,000,000 items" in text
    assert all(ours[d] < 0.9 * full for d in ours if d < advice["dim"])
    assert "keep" in refused("advise", run, "--keep", 1.5)
    for unused in (("--recall", 0.9), ("--plot", tmp_path / "plot"), ("--top", 10)):
        assert f"{unused[0]} is for an index" in refused("advise", run, *unused)


def test_keep_is_for_models(files: Path, run: Path, model_dir: Path, tmp_path: Path) -> None:
    succeed("index", run, files / "few.npy", "--out", tmp_path / "few.index")
    assert "--recall" in refused("advise", tmp_path / "few.index", "--keep", 0.9)
    assert "no scores" in refused("advise", model_dir, "--keep", 0.9)


@pytest.mark.slow
def test_a_new_model_searches_the_index_of_the_old_one(files: Path, run: Path, tmp_path: Path) -> None:
    x = np.load(files / "x.npy")
    np.save(tmp_path / "new.npy", np.tanh(x @ np.random.default_rng(5).normal(size=(24, 40)) / 40))
    succeed("index", run, files / "y.npy", "--out", tmp_path / "old.index")
    new = tmp_path / "new"
    succeed("fit", "vectors", tmp_path / "new.npy", "--pairs", files / "x.npy", "--into", run, "--out", new)
    found = tmp_path / "found.json"
    succeed("search", tmp_path / "old.index", tmp_path / "new.npy", "--model", new, "--top", 10, "--json", found, "-q")
    results = json.loads(found.read_text())["results"]
    hits = [str(row) in [hit["id"] for hit in each["found"]] for row, each in enumerate(results)]
    assert np.mean(hits) > 0.3
    # Codes of an unrelated model are refused.
    succeed("fit", "vectors", files / "x.npy", "--lag", 1, "--out", tmp_path / "other", "-q", "-k", 12)
    assert "model" in refused("search", tmp_path / "old.index", files / "few.npy", "--model", tmp_path / "other")


def bad(files: Path, folder: Path) -> dict[str, tuple[object, ...]]:
    """Commands that cannot work, by words of the one sentence that each must end in."""
    x, y = (np.load(files / name) for name in ("x.npy", "y.npy"))
    broken, rows = x.copy(), np.arange(1200)
    broken[77, 3] = np.nan
    written = {
        "nan": broken,
        "constant": np.ones_like(x),
        "flat": x @ np.diag(np.r_[np.ones(5), np.zeros(19)]).astype(np.float32),
        "wide": np.random.default_rng(0).normal(size=(60, 80)),
        "wide2": np.random.default_rng(1).normal(size=(60, 80)),
        "outside": np.array([[0, 1], [5, 1200]]),
        "same": np.stack([rows, rows], 1),
        "three": np.stack([rows] * 3, 1),
        "rows": np.stack([np.arange(9.0)] * 2, 1),
        "texts": np.full((1200, 2), "a"),
        "line": x[0],
    }
    for name, array in written.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "list.txt").write_text("1 2 3")
    (folder / "cut.npy").write_bytes((files / "x.npy").read_bytes()[:5000])
    x, y = files / "x.npy", files / "y.npy"
    return {
        "44 training pairs": (folder / "wide.npy", "--pairs", folder / "wide2.npy"),
        "Pair 1 .* row 1200": (x, "--pairs", folder / "outside.npy"),
        "row with itself": (x, "--pairs", folder / "same.npy"),
        "All rows of .*constant.npy are the same|constant": (folder / "constant.npy", "--pairs", y),
        "at most 5": (folder / "flat.npy", "--lag", 1, "-k", 6, "--no-unit-rows"),
        "Row 77 of .*nan.npy": (folder / "nan.npy", "--pairs", y),
        "1,200 rows and .*1,199": (x, "--pairs", files / "shorter.npy"),
        "v.npy has .*x.npy": (x, "--views", files / "v.npy"),
        "two columns": (x, "--pairs", folder / "three.npy"),
        "row numbers .*float64.*--two-spaces": (x, "--pairs", folder / "rows.npy"),
        "texts.npy .*numbers": (folder / "texts.npy", "--pairs", y),
        "one vector per row": (folder / "line.npy", "--pairs", y),
        "list.txt .*file of vectors": (folder / "list.txt", "--pairs", y),
        "cannot be read": (folder / "cut.npy", "--pairs", y),
        "none.npy does not exist": (folder / "none.npy", "--pairs", y),
        "exactly one of --pairs, --views": (x,),
        "--pairs and --lag": (x, "--pairs", y, "--lag", 1),
        "y.npy .*--views": (x, y),
        "x.npy equals": (x, "--pairs", x),
        "weights .*one per pair": (x, "--pairs", files / "pairs.npy", "--weights", files / "labels.npy"),
        "labels .*x.npy": (x, "--labels", folder / "list.txt"),
        "does not train.*--solver neural": (x, "--pairs", y, "--steps", 5),
    }


def test_bad_input_is_one_sentence_and_leaves_nothing(files: Path, tmp_path: Path) -> None:
    for says, words in bad(files, tmp_path).items():
        sentence = refused("fit", "vectors", *words, "--out", tmp_path / "run")
        assert re.search(says, sentence), (says, sentence)
        assert not (tmp_path / "run").exists(), says


def test_a_folder_with_a_run_is_not_overwritten(files: Path, run: Path) -> None:
    assert "not empty" in refused("fit", "vectors", files / "x.npy", "--lag", 1, "--out", run)
