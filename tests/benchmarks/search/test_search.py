"""The measurements of search run, and measure what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common.codes import Codes, Mixture
from benchmarks.search import RESULTS, large, measure, tables
from benchmarks.search.quality import BYTES, METHODS, full_quality, mean_average_precision
from benchmarks.search.ways import NAMES, recall, ways
from eigenmap.search import CodeIndex

K, N = 64, 600


@pytest.fixture(scope="module")
def codes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes with a falling spectrum, features of equal variance as a model without weights gives them."""
    rng = np.random.default_rng(0)
    mu = np.linspace(0.95, 0.3, K)
    centres = 2 * rng.standard_normal((3, K))
    labels, asked = rng.integers(0, 3, N), rng.integers(0, 3, 40)
    file = tmp_path_factory.mktemp("codes") / "codes.npz"
    np.savez(
        file,
        gallery=(centres[labels] + rng.standard_normal((N, K))).astype(np.float16),
        queries=(centres[asked] + rng.standard_normal((40, K))).astype(np.float16),
        gallery_labels=labels,
        query_labels=asked,
        eigenvalues=mu,
    )
    return file


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


def test_codes_are_weighted_and_of_norm_one(codes_file: Path) -> None:
    codes = Codes.load(codes_file, 10)
    assert len(codes.queries) == len(codes.query_labels) == 10
    np.testing.assert_allclose(np.linalg.norm(codes.gallery, axis=1), 1, atol=1e-5)
    spread = codes.gallery.std(axis=0)
    assert spread[0] > 20 * spread[-1]  # (0.95 / 0.3)^4 = 100


def test_codes_that_were_weighted_are_taken_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = (3 * rng.standard_normal((50, 4)) * [1, 0.5, 0.2, 0.1]).astype(np.float32)
    labels = rng.random((50, 5)) < 0.5  # several an item
    parts = {"gallery_labels": labels[:40], "query_labels": labels[40:], "eigenvalues": np.linspace(1, 0.2, 4)}
    np.savez(tmp_path / "codes.npz", gallery=rows[:40], queries=rows[40:], t=2.0, **parts)
    codes = Codes.load(tmp_path / "codes.npz")
    assert codes.t == 2
    np.testing.assert_allclose(codes.gallery, rows[:40] / np.linalg.norm(rows[:40], axis=1, keepdims=True), rtol=1e-5)
    assert 0 < full_quality(codes)["map_over_found@1000"] <= 1


def test_a_mixture_has_the_moments_of_its_codes_and_the_same_beginning_whatever_its_length(
    codes_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.common.codes.CHUNK", 500)
    codes = Codes.load(codes_file).gallery
    mixture = Mixture.fit(codes, components=10)
    drawn = mixture.items(1200)
    assert drawn.shape == (1200, K)
    np.testing.assert_array_equal(mixture.items(700), drawn[:700])
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(drawn.mean(axis=0), codes.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), codes.std(axis=0), atol=0.05)


EXACT = ["exact, full length", "default (dim = auto)", "funnel", "HNSW on prefix + refine", "usearch HNSW, full vector"]
ROUGH = ["exact, prefix 16", "exact, prefix 64", "int8", "bit budget, 16 bytes", "PCA to 16", "faiss HNSW, full vector"]


@pytest.mark.parametrize("name", [*EXACT, *ROUGH, "IVF on prefix + refine", "faiss SQ8, full vector"])
def test_every_way_finds_neighbours(codes_file: Path, name: str) -> None:
    codes = Codes.load(codes_file)
    truth = measure.exact(codes.gallery)(codes.queries)
    way = ways()[name]()
    way.build(codes.gallery, lambda line: None)
    way.tune(codes.gallery[:20], measure.exact(codes.gallery)(codes.gallery[:20]))
    found = way.search(codes.queries)
    assert found.shape == (40, 10)
    share = recall(found, truth)
    assert share == 1 if name.startswith("exact, full") else share > (0.9 if name in EXACT else 0.3)
    assert way.bytes_per_item > 0 and way.setting


def test_a_row_is_measured_once_and_shown(
    codes_file: Path, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "SECONDS", 0.0)
    words = ["search.py", "speed", str(codes_file), "--name", "cifar10", "--work", str(tmp_path / "work")]
    words += ["--folder", str(results)]
    for _ in range(2):
        monkeypatch.setattr("sys.argv", [*words, "--one", "exact, prefix 16"])
        measure.main()
    file = results / "search-cifar10-real.json"
    row = json.loads(file.read_text())["rows"]["exact, prefix 16"]
    assert row["items"] == N and 0 < row["recall@10"] <= 1 and row["bytes_per_item"] == 64
    monkeypatch.setattr("sys.argv", [*words, "--ways", "exact, prefix 16"])
    before = file.read_text()
    measure.main()
    assert file.read_text() == before  # it was there already
    text = tables.tables(results)
    (line,) = [line for line in text.splitlines() if line.startswith("| exact, prefix 16 | 16 features")]
    assert f"| {row['recall@10']:.3f} |" in line
    assert "| funnel | not run |" in text and all(f"| {name} |" in text for name in NAMES)


def test_quality_at_equal_bytes(codes_file: Path) -> None:
    codes = Codes.load(codes_file)
    full = full_quality(codes)["map_over_found@1000"]
    assert BYTES == (4, 8, 16, 32, 64)
    for name in ("bit budget", "int8 prefix", "sign bits"):
        few, many = (mean_average_precision(codes, *METHODS[name](codes, n))["map_over_found@1000"] for n in (4, 32))
        assert 0.3 < few <= many + 0.05 and many > full - 0.1


def test_a_large_index_is_filled_in_pieces_and_measured(
    codes_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.common.codes.CHUNK", 100)
    monkeypatch.setattr(large, "CHUNK", 100)
    monkeypatch.setattr(large, "DIMS", (8, 64))
    monkeypatch.setattr(large, "FUNNEL", [(16, 50), (64, 10)])
    mixture = Mixture.fit(Codes.load(codes_file).gallery, components=10)
    assert not large.fill(tmp_path / "large", mixture, 300, seconds=-1)
    assert large.fill(tmp_path / "large", mixture, 300, seconds=60)
    row = large.measure_large(tmp_path / "large", mixture.queries(5), 2**20)
    assert row["items"] == 300 and row["open_seconds"] < 1
    assert set(row["searches"]) == {"8 features", "64 features", "funnel"}
    assert row["first_addition"]["seconds"] > 0 and len(CodeIndex.open(tmp_path / "large")) == 301


def test_a_page_without_the_place_for_tables_is_refused() -> None:
    with pytest.raises(SystemExit, match="has lost the lines"):
        tables.page("nothing here", RESULTS)
