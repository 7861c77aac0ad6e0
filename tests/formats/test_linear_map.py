"""Linear codes as plain numbers: every format, evaluated without the model, gives the model's codes."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError
from eigenmap.export import export_map
from eigenmap.formats.linear_map import sql_name
from tests.database import rows as query
from tests.formats.models import FEATURES, LENGTH, vector_model
from tests.linear.planted import two_spaces

VECTORS = np.random.default_rng(5).normal(2.0, 3.0, size=(9, LENGTH)).astype(np.float32)
CLOSE = {"rtol": 0, "atol": 2e-6}


def unit_rows(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def read_safetensors(file: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The published format: length of the header, the header as JSON, the numbers."""
    content = file.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    about = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32"
        first, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(content[8 + size + first : 8 + size + end], "<f4").reshape(entry["shape"])
    return tensors, about


@pytest.fixture(params=[True, False], ids=["unit", "as they are"])
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Eigenmap, Path]:
    model = vector_model(request.param)
    model.save(tmp_path / "run")
    return model, tmp_path / "run"


@pytest.mark.parametrize("dim", [None, 3])
def test_arrays_make_the_same_codes(saved: tuple[Eigenmap, Path], dim: int | None) -> None:
    model, run = saved
    expected, unit = model.encode(VECTORS, dim), model.linear_map().unit
    x = unit_rows(VECTORS.astype(np.float64)) if unit else VECTORS.astype(np.float64)

    export_map(run, run / "map.npy", dim)
    matrix = np.load(run / "map.npy").astype(np.float64)
    assert matrix.shape == (LENGTH + 1, dim or FEATURES)
    np.testing.assert_allclose(unit_rows(np.hstack([x, np.ones((9, 1))]) @ matrix), expected, **CLOSE)

    export_map(run, run / "map.npz", dim)
    with np.load(run / "map.npz") as arrays:
        assert bool(arrays["unit"]) is unit and sorted(arrays) == ["matrix", "mean", "unit", "weights"]
        np.testing.assert_allclose(
            unit_rows((x - arrays["mean"]) @ (arrays["matrix"] * arrays["weights"])), expected, **CLOSE
        )

    export_map(run, run / "map.safetensors", dim)
    tensors, about = read_safetensors(run / "map.safetensors")
    assert about == {"unit": str(unit).lower(), "eigenmap_fingerprint": model.weights_sha256}
    np.testing.assert_allclose(
        unit_rows((x - tensors["mean"]) @ (tensors["matrix"] * tensors["weights"])), expected, **CLOSE
    )


def test_numbers_before_the_norm_are_the_models_too(saved: tuple[Eigenmap, Path]) -> None:
    model, _ = saved
    numbers = model.linear_map(4)
    x = unit_rows(VECTORS) if numbers.unit else VECTORS
    plain = x @ numbers.folded + numbers.bias
    np.testing.assert_allclose(plain, model.encode(VECTORS, 4, normalize=False), rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_the_sql_function_runs_in_postgresql(saved: tuple[Eigenmap, Path], database: str) -> None:
    model, run = saved
    export_map(run, run / "Text-codes.sql", 5)
    query(database, "CREATE EXTENSION vector")
    query(database, (run / "Text-codes.sql").read_text())
    query(database, f"CREATE TABLE docs (id int, x vector({LENGTH}))")
    rows = [*VECTORS, np.zeros(LENGTH, np.float32)]
    for number, row in enumerate(rows):
        query(database, "INSERT INTO docs VALUES (%s, %s)", (number, str(row.tolist())))
    found = [json.loads(code) for (code,) in query(database, "SELECT text_codes(x)::text FROM docs ORDER BY id")]
    np.testing.assert_allclose(found, model.encode(np.array(rows), 5), **CLOSE)
    # As an expression of an index, it finds the nearest code.
    query(database, "CREATE INDEX ON docs USING hnsw ((text_codes(x)::vector(5)) vector_cosine_ops)")
    nearest = query(
        database,
        "SELECT id FROM docs ORDER BY text_codes(x)::vector(5) <=> text_codes(%s) LIMIT 1",
        (str(rows[4].tolist()),),
    )
    assert nearest == [(4,)]


def test_one_side_of_two_spaces(tmp_path: Path) -> None:
    import eigenmap as em

    x, y = two_spaces(400)
    model = em.fit_vectors(x, 5, pairs=y, out=tmp_path / "run", progress=False, device="cpu")
    assert model.right is not None
    with pytest.raises(EigenmapError, match="two spaces"):
        export_map(tmp_path / "run", tmp_path / "map.npy")
    numbers = export_map(tmp_path / "run", tmp_path / "map.npy", side="right")
    matrix, rows = np.load(tmp_path / "map.npy"), unit_rows(y[:6]) if numbers.unit else y[:6]
    made = unit_rows(np.hstack([rows, np.ones((6, 1))]) @ matrix)
    np.testing.assert_allclose(made, model.right.encode(y[:6]), rtol=0, atol=1e-5)


def test_mistakes(tmp_path: Path) -> None:
    vector_model(True, width=6).save(tmp_path / "neural")
    vector_model(True).save(tmp_path / "linear")
    with pytest.raises(EigenmapError, match=r"neural head.*ONNX"):
        export_map(tmp_path / "neural", tmp_path / "map.npy")
    with pytest.raises(EigenmapError, match=r"map\.txt.*\.npy.*\.sql"):
        export_map(tmp_path / "linear", tmp_path / "map.txt")
    with pytest.raises(EigenmapError, match=r"dim.*1 to 7.*8"):
        export_map(tmp_path / "linear", tmp_path / "map.npy", 8)
    with pytest.raises(EigenmapError, match=r"7codes.*letter"):
        export_map(tmp_path / "linear", tmp_path / "7codes.sql")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["linear", "neural"]
    assert sql_name("Größe 1") == "gr__e_1"


def test_content_is_the_same_each_time() -> None:
    numbers = vector_model(True).linear_map()
    assert numbers.npy() == numbers.npy() and numbers.sql("codes") == numbers.sql("codes")
    assert np.load(io.BytesIO(numbers.npy())).dtype == np.float32
