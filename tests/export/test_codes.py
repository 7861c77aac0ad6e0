from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.export import export_faiss, export_parquet
from eigenmap.search import CodeIndex

CODES = np.random.default_rng(0).normal(size=(50, 6)).astype(np.float32)
CODES[7] = 0


def made(ids: list[str] | list[int], metric: str = "cosine") -> CodeIndex:
    index = CodeIndex(6, metric, fingerprint="abc")
    index.add(CODES, ids)
    return index


TEXTS = [f"photo {i}" for i in range(50)]
NUMBERS = [10**12 + 3 * i for i in range(50)]


@pytest.mark.parametrize("ids", [TEXTS, NUMBERS])
def test_parquet(ids: list[str] | list[int], tmp_path: Path) -> None:
    assert export_parquet(made(ids), tmp_path / "codes.parquet", dim=4) == 50
    table = pq.read_table(tmp_path / "codes.parquet")
    assert table["id"].to_pylist() == ids
    assert table.schema.field("code").type == pa.list_(pa.float32(), 4)
    codes = np.array(table["code"].to_pylist(), np.float32)
    norms = np.linalg.norm(CODES[:, :4], axis=1, keepdims=True)
    np.testing.assert_allclose(codes, CODES[:, :4] / np.where(norms == 0, 1, norms), atol=1e-6)
    assert table.schema.metadata[b"eigenmap_fingerprint"] == b"abc"


def test_parquet_of_an_empty_index(tmp_path: Path) -> None:
    """Of old this was a file of 0 bytes, which no reader accepts."""
    assert export_parquet(CodeIndex(6), tmp_path / "codes.parquet", dim=4) == 0
    table = pq.read_table(tmp_path / "codes.parquet")
    assert len(table) == 0 and table.schema.field("code").type == pa.list_(pa.float32(), 4)


@pytest.mark.parametrize("metric", ["cosine", "inner"])
@pytest.mark.parametrize("ids", [TEXTS, NUMBERS])
def test_faiss_finds_what_the_index_finds(ids: list[str] | list[int], metric: str, tmp_path: Path) -> None:
    index = made(ids, metric)
    names = export_faiss(index, tmp_path / "codes.faiss", dim=4)
    queries = CODES[:5, :4]
    expected = index.search(queries, dim=4)
    unit = queries / np.linalg.norm(queries, axis=1, keepdims=True) if metric == "cosine" else queries
    scores, found = faiss.read_index(str(tmp_path / "codes.faiss")).search(unit, 10)
    np.testing.assert_allclose(scores, expected.scores, atol=1e-5)
    if ids is TEXTS:
        assert names == tmp_path / "codes.faiss.ids.json"
        texts = json.loads(names.read_text())
        assert [[texts[row] for row in line] for line in found] == expected.ids
    else:
        assert names is None
        assert found.tolist() == expected.ids
    assert len(list(tmp_path.iterdir())) == (2 if names else 1)


@pytest.mark.parametrize("export", [export_parquet, export_faiss])
@pytest.mark.parametrize("large", [2**63, -(2**63) - 1])
def test_an_id_of_more_than_64_bits_is_refused_clearly(export: Any, large: int, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=rf"id {large} .*64 bits"):
        export(made([*range(49), large]), tmp_path / "codes")
    assert not list(tmp_path.iterdir())
    export(made([*range(48), 2**63 - 1, -(2**63)]), tmp_path / "codes")


def test_a_length_that_no_code_has(tmp_path: Path) -> None:
    for export in (export_parquet, export_faiss):
        with pytest.raises(EigenmapError, match="dim"):
            export(made(TEXTS), tmp_path / "codes", dim=7)
    assert not list(tmp_path.iterdir())


def read_pair(out: Path) -> dict[str, bytes]:
    """Return the codes of a FAISS index by the texts beside it."""
    texts = json.loads(out.with_name(f"{out.name}.ids.json").read_text())
    found = faiss.read_index(str(out))
    ids = faiss.vector_to_array(found.id_map) if isinstance(found, faiss.IndexIDMap2) else range(found.ntotal)
    flat = found.index if isinstance(found, faiss.IndexIDMap2) else found
    return {texts[i]: code.tobytes() for i, code in zip(ids, flat.reconstruct_n(0, found.ntotal), strict=True)}


@pytest.mark.parametrize("count", [20, 50, 90])
def test_a_replaced_index_has_its_texts_at_every_moment(tmp_path: Path, count: int) -> None:
    """A kill leaves the old or the new codes under their texts, and the next export leaves the plain files."""
    out, names = tmp_path / "codes.faiss", tmp_path / "codes.faiss.ids.json"
    (tmp_path / "codes.ids.json").write_text("of codes.npy")
    export_faiss(made(TEXTS), out)
    other = CodeIndex(6, "cosine", fingerprint="abc")
    other.add(np.random.default_rng(1).normal(size=(count, 6)), [f"other {i}" for i in range(count)])
    export_faiss(other, tmp_path / "wanted.faiss")
    pairs = [read_pair(out), read_pair(tmp_path / "wanted.faiss")]
    seen: list[tuple[int, tuple[bytes, bytes]]] = []

    def look(event: str, _: tuple[object, ...]) -> None:
        if looking and event in ("os.rename", "os.remove", "open"):
            looking.clear()  # what follows opens files itself
            seen.append((pairs.index(read_pair(out)), (out.read_bytes(), names.read_bytes())))
            looking.append(True)

    looking: list[bool] = [True]
    sys.addaudithook(look)
    export_faiss(other, out)
    looking.clear()
    assert {which for which, _ in seen} == {0, 1}
    states = {files for _, files in seen}
    assert len(states) == 6  # the old pair, after each of four steps, and the new pair
    for index, texts in states:  # as after a kill
        out.write_bytes(index)
        names.write_bytes(texts)
        export_faiss(other, out)
        assert out.read_bytes() == (tmp_path / "wanted.faiss").read_bytes()
        assert names.read_bytes() == (tmp_path / "wanted.faiss.ids.json").read_bytes()
    export_faiss(made(NUMBERS), out)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"codes.faiss", "codes.ids.json", "wanted.faiss", "wanted.faiss.ids.json"}


def test_two_exports_that_replace_one_index_take_turns(tmp_path: Path) -> None:
    out = tmp_path / "codes.faiss"
    export_faiss(made(TEXTS), out)
    indexes = []
    for number in range(2):
        indexes.append(CodeIndex(6, "cosine", fingerprint="abc"))
        codes = np.random.default_rng(number).normal(size=(30 + number, 6))
        indexes[-1].add(codes, [f"{number}, {i}" for i in range(30 + number)])
        export_faiss(indexes[-1], tmp_path / f"{number}.faiss")
    wanted = [read_pair(tmp_path / f"{number}.faiss") for number in range(2)]

    def export(index: CodeIndex) -> None:
        for _ in range(10):
            export_faiss(index, out)

    threads = [threading.Thread(target=export, args=(index,)) for index in indexes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_pair(out) in wanted and not list(tmp_path.glob(".*"))


def test_equal_texts_stay_in_place_and_odd_ones_are_replaced(tmp_path: Path) -> None:
    out, names = tmp_path / "codes.faiss", tmp_path / "codes.faiss.ids.json"
    export_faiss(made(TEXTS), out, dim=4)
    export_faiss(made(TEXTS), out)
    assert faiss.read_index(str(out)).d == 6
    for odd in ("[1, 2]", "{}", "no JSON"):
        names.write_text(odd)
        export_faiss(made(TEXTS), out)
        assert json.loads(names.read_text()) == TEXTS and faiss.read_index(str(out)).d == 6
    (tmp_path / ".codes.faiss.step").write_text("left by a kill")
    export_faiss(made(TEXTS), out)
    assert {path.name for path in tmp_path.iterdir()} == {"codes.faiss", "codes.faiss.ids.json"}


def test_a_new_index_is_never_without_its_names(tmp_path: Path) -> None:
    """A kill between the two files leaves no index, and the next export completes."""
    out, names = tmp_path / "codes.faiss", tmp_path / "codes.faiss.ids.json"
    seen: set[tuple[bool, bool]] = set()

    def look(event: str, _: tuple[object, ...]) -> None:
        if looking and event in ("os.rename", "os.remove", "os.link", "open"):
            seen.add((names.exists(), out.exists()))

    looking: list[bool] = [True]
    sys.addaudithook(look)
    export_faiss(made(TEXTS), out)
    looking.clear()
    assert (False, True) not in seen and (False, False) in seen and names.exists() and out.exists()
    out.unlink()  # as after a kill
    with pytest.raises(EigenmapError, match=r"ids.json.*exists"):
        export_faiss(made(TEXTS), out, overwrite=False)
    assert not out.exists()
    export_faiss(made(NUMBERS), out)
    assert out.exists() and not names.exists()


@pytest.mark.parametrize("suffix", ["parquet", "faiss"])
def test_of_two_exports_to_one_new_file_one_is_refused(tmp_path: Path, suffix: str) -> None:
    """Of old both ended well, and one file was gone."""
    export = export_parquet if suffix == "parquet" else export_faiss
    index, out, start = made([f"item {i}" for i in range(50)]), tmp_path / f"codes.{suffix}", threading.Barrier(2)
    errors: list[str] = []

    def run(dim: int) -> None:
        start.wait()
        try:
            export(index, out, dim, overwrite=False)
        except EigenmapError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=run, args=(dim,)) for dim in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1 and "exists" in errors[0]
    names = {"codes.faiss", "codes.faiss.ids.json"} if suffix == "faiss" else {"codes.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_a_disk_that_is_full_at_the_names_leaves_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of old the index had its name before the names were written."""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    index = made([f"{'long ' * 50}{i}" for i in range(50)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, limit[1]))
    try:
        with pytest.raises(EigenmapError, match="written"):
            export_faiss(index, tmp_path / "codes.faiss")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(tmp_path.iterdir()) == []
