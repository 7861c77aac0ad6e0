from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap
from eigenmap.cli.evaluate.retrieval import repeat_options
from eigenmap.data import ImageSet, load_images
from eigenmap.evaluation.retrieval import random_features, retrieval
from eigenmap.model import CodeSource
from tests.cli.run import refused, run, succeed
from tests.end_to_end.photos import pictures


@pytest.mark.parametrize(
    ("given", "parsed"),
    [
        ("--dims 2 4 8 RUN", "--dims 2 --dims 4 --dims 8 RUN"),
        ("RUN --dims 2,4, 8 --top=1,2 3", "RUN --dims 2 --dims 4 --dims 8 --top 1 --top 2 --top 3"),
        ("--dims 2 --dims 4", "--dims 2 --dims 4"),
        ("--dims x --top", "--dims x --top"),
        ("--dims -1", "--dims -1"),
        ("--json 5 7", "--json 5 7"),
    ],
)
def test_one_option_takes_several_numbers(given: str, parsed: str) -> None:
    assert repeat_options(given.split(" "), ["--dims", "--top"]) == parsed.split(" ")


def test_quoted_numbers() -> None:
    assert repeat_options(["--dims", "2 4"], ["--dims"]) == ["--dims", "2", "--dims", "4"]


def test_scores_are_those_of_the_library(model_dir: Path, photos: Path, array_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    result = succeed(
        *("evaluate", "retrieval", model_dir, "--gallery", photos, "--query", array_file),
        *("--dims", 2, 8, "--top", 3, 10, "--json", file),
    )
    model, gallery, queries = Eigenmap.load(model_dir), load_images(photos, size=16), load_images(array_file)
    assert gallery.labels is not None and queries.labels is not None
    expected = retrieval(
        model.encode(queries),
        model.encode(gallery),
        queries.labels.in_classes(gallery.labels.names).matrix,
        gallery.labels.matrix,
        dims=[2, 8],
        top=[3, 10],
    )
    written = json.loads(file.read_text())
    for row, reference in zip(written["rows"], expected, strict=True):
        assert row == pytest.approx(reference, abs=1e-6)
    for name in ("map_over_found@3", "map_over_relevant@10", "precision@10"):
        assert name in result.out
    assert f"{expected[1]['map_over_found@10']:.4f}" in result.out
    assert re.search("10.*15.*12 queries", result.out)


@pytest.mark.parametrize("draws", [None, 3])
@pytest.mark.parametrize("of", ["projector", "encoder"])
def test_raw_outputs_rank_in_their_own_order_or_at_random(
    model_dir: Path, photos: Path, array_file: Path, tmp_path: Path, of: CodeSource, draws: int | None
) -> None:
    """The paper's code, and its baseline."""
    file = tmp_path / "r.json"
    result = succeed(
        *("evaluate", "retrieval", model_dir, "--gallery", photos, "--query", array_file, "--dims", 2, 8, "--top", 5),
        *("--of", of, *(() if draws is None else ("--random-features", draws)), "--json", file),
    )
    model, gallery, queries = Eigenmap.load(model_dir), load_images(photos, size=16), load_images(array_file)
    assert gallery.labels is not None and queries.labels is not None
    place = 0 if of == "encoder" else 1
    with torch.no_grad():
        codes = [model.network(model.image(images.pixels))[place] for images in (queries, gallery)]
    truth = (queries.labels.in_classes(gallery.labels.names).matrix, gallery.labels.matrix)
    if draws is None:
        expected = retrieval(*codes, *truth, dims=[2, 8], top=[5])
    else:
        expected = random_features(*codes, *truth, dims=[2, 8], top=[5], draws=draws)
        assert f" ± {expected[0]['precision@5_spread']:.4f}" in result.out
    written = json.loads(file.read_text())
    assert written["protocol"]["of"] == of and ("random" in written["protocol"]["ranking"]) == (draws is not None)
    for row, reference in zip(written["rows"], expected, strict=True):
        assert row == pytest.approx(reference, abs=1e-6)


def test_random_features_of_ordered_codes_are_refused(model_dir: Path, photos: Path) -> None:
    words = ("evaluate", "retrieval", model_dir, "--gallery", photos, "--random-features", 2)
    assert "--of projector" in refused(*words)


def test_the_json_says_what_was_measured_with_what(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    succeed("evaluate", "retrieval", model_dir, "--gallery", photos, "--json", file, "--device", "cpu")
    written = json.loads(file.read_text())
    assert [row["dim"] for row in written["rows"]] == [2, 4, 8]
    assert "map_over_relevant@14" in written["rows"][0]  # 15 photos, each among the others
    assert written["model"]["fingerprint"] == Eigenmap.fingerprint(model_dir)
    assert written["model"]["seed"] == 0
    assert set(written["versions"]) == {"eigenmap", "torch", "numpy", "python"}
    assert written["device"].startswith("cpu") and written["date"].startswith("20")
    protocol = written["protocol"]
    assert (protocol["gallery_images"], protocol["query_images"], protocol["classes"]) == (15, 15, 3)


def test_images_are_not_found_among_themselves(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    """Without queries, and with the gallery as queries, no image may find itself."""
    tables = []
    for name, query in (("one", []), ("two", ["--query", photos / "."])):
        arguments = ("evaluate", "retrieval", model_dir, "--gallery", photos, *query, "--top", 14)
        tables.append(succeed(*arguments, "--json", tmp_path / name).out)
        written = json.loads((tmp_path / name).read_text())
        assert written["protocol"]["each_among_the_others"]
        # All 14 others are in the ranking, 4 of them relevant: an image that found itself would make it 5.
        assert written["rows"][0]["precision@14"] == pytest.approx(4 / 14)
    assert tables[0] == tables[1]


def write_labels(path: Path, rows: dict[str, str]) -> Path:
    path.write_text("file,labels\n" + "".join(f"{name},{labels}\n" for name, labels in rows.items()))
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    np.save(tmp_path / "plain.npy", pictures(6, seed=2))
    return tmp_path / "plain.npy"


def test_labels_may_come_from_a_table_and_be_several(model_dir: Path, plain: Path, tmp_path: Path) -> None:
    table = write_labels(
        tmp_path / "labels.csv", {"0": "blue lines", "1": "green", "2": "red lines", "3": "blue", "4": "green", "5": ""}
    )
    file = tmp_path / "r.json"
    succeed(
        *("evaluate", "retrieval", model_dir, "--gallery", plain, "--gallery-labels", table),
        *("--top", 5, "--dims", 8, "--json", file),
    )
    written = json.loads(file.read_text())
    # Relevant to 0: 2 and 3; to 1: 4; to 2: 0; to 3: 0; to 4: 1; to 5: none.
    assert written["rows"][0]["precision@5"] == pytest.approx((2 + 1 + 1 + 1 + 1 + 0) / 5 / 6)
    assert written["protocol"]["classes"] == 4


def test_a_table_that_names_missing_images_is_refused(model_dir: Path, plain: Path, tmp_path: Path) -> None:
    table = write_labels(tmp_path / "labels.csv", {str(i): "x" for i in range(7)})
    sentence = refused("evaluate", "retrieval", model_dir, "--gallery", plain, "--gallery-labels", table)
    assert re.search(rf"{table} .*1 file \(6\)", sentence)


def test_images_that_have_nobody_to_be_found_by_are_counted(model_dir: Path, plain: Path, tmp_path: Path) -> None:
    table = write_labels(tmp_path / "labels.csv", {str(i): str(max(i, 1)) for i in range(6)})  # two of the first class
    said = succeed("evaluate", "retrieval", model_dir, "--gallery", plain, "--gallery-labels", table).err
    assert re.search("4 of 6 .*class", said)


def test_labels_that_make_no_sense_are_told(
    model_dir: Path, photos: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate = ("evaluate", "retrieval", model_dir, "--gallery")
    stray = tmp_path / "stray"
    shutil.copytree(photos, stray)
    shutil.copy(next(photos.rglob("*.png")), stray / "alone.png")
    assert re.search(r"class folder.*alone\.png", refused(*evaluate, stray, "--quiet"))
    numbered = ImageSet(torch.zeros(2, 3, 8, 8, dtype=torch.uint8), ids=["a/0", "b/1"])  # names of a parquet file
    monkeypatch.setattr("eigenmap.cli.evaluate.retrieval.read_images", lambda *_, **__: numbered)
    assert "class folder" in refused(*evaluate, plain)
    monkeypatch.undo()
    assert "class folder" in refused(*evaluate, plain) and "--gallery-labels" in refused(*evaluate, plain)
    assert "--query-labels" in refused(*evaluate, photos, "--query", plain, "--quiet")
    table = write_labels(tmp_path / "labels.csv", {str(i): "cat" if i else "disc" for i in range(6)})
    result = succeed(*evaluate, photos, "--query", plain, "--query-labels", table)
    assert re.search("5 of 6 queries.*class", result.err)
    table = write_labels(tmp_path / "labels.csv", {str(i): "cat" for i in range(6)})
    assert re.search(
        "class.*cat.*bars, disc, stripes",
        refused(*evaluate, photos, "--query", plain, "--query-labels", table, "--quiet"),
    )
    result = succeed(*evaluate, plain, "--gallery-labels", table, "--top", 5)
    assert re.fullmatch(r".*one class.*cat.*\n", result.err)
    assert re.search("labels.*once", refused(*evaluate, plain, "--gallery-labels", table, "--query-labels", table))


def test_other_mistakes(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    evaluate = ("evaluate", "retrieval", model_dir, "--gallery", photos)
    assert re.search("dim.*1.*8.*9", refused(*evaluate, "--dims", 2, 9))
    assert re.search("top.*1.*0", refused(*evaluate, "--top", 0))
    assert re.search("gone.*exist", refused(*evaluate, "--query", tmp_path / "gone", "--quiet"))
    (tmp_path / "r.json").write_text("mine")
    assert "exists" in refused(*evaluate, "--json", tmp_path / "r.json")
    result = run(*evaluate, "--dims", "long")
    assert result.code == 2 and "--dims" in result.err


def test_no_score_counts_more_results_than_there_are(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    """The 14 other photos are all that can be found: precision@1000 would say little but how few they are."""
    file = tmp_path / "r.json"
    words = ("evaluate", "retrieval", model_dir, "--gallery", photos, "--top", 5, 100, 1000, "--dims", 2)
    result = succeed(*words, "--json", file)
    (row,) = json.loads(file.read_text())["rows"]
    assert {name.split("@")[1] for name in row if "@" in name} == {"5", "14"}
    assert row["precision@14"] == pytest.approx(4 / 14)  # five of each of three kinds
    assert "only 14 images" in result.err and "100 and 1,000" in result.err and "1000" not in result.out
