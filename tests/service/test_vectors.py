"""The service in front of vectors: with a model, without one, with two spaces, and in front of pictures."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest

from eigenmap import CodeIndex
from eigenmap.cli.serve import _explorer
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from tests.cli.run import refused, succeed
from tests.formats.models import FEATURES, LENGTH, vector_model
from tests.service.running import serving

ROWS = np.random.default_rng(0).normal(1.0, 2.0, size=(30, LENGTH)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", ROWS)
    (tmp_path / "texts.txt").write_text("".join(f"Text {row}\n" for row in range(30)))
    vector_model(True).save(tmp_path / "run")
    return tmp_path


def found(client: httpx.Client, **asked: object) -> list[str]:
    answer = client.post("/api/search", json={"top": 3, **asked})
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_a_model_encodes_an_input_vector(folder: Path) -> None:
    options = ("--texts", folder / "texts.txt", "--out", folder / "x.index", "--quiet")
    succeed("index", folder / "run", folder / "x.npy", *options)
    with serving(create_app(Explorer.open(folder / "x.index"))) as client:
        about = client.get("/api/about").json()
        assert (about["texts"], about["vector_length"], about["can_encode"]) == (True, LENGTH, False)
        answer = client.post("/api/search", json={"input": ROWS[4].tolist(), "dim": 3, "top": 5}).json()
        code = vector_model(True).encode(ROWS[4:5])
        np.testing.assert_allclose(answer["vector"], code[0], atol=1e-6)
        with CodeIndex.open(folder / "x.index") as index:
            assert [item["id"] for item in answer["items"]] == index.search(code, 5, 3).ids[0]
        assert answer["items"][0]["metadata"] == {"text": "Text 4"}
        assert found(client, vector=answer["vector"]) == found(client, input=ROWS[4].tolist())
        for wrong, status, words in [
            ({"input": [1.0, 2.0]}, 422, f"{LENGTH} numbers, not 2"),
            ({"input": []}, 422, "input"),
            ({"input": ROWS[4].tolist(), "id": "4"}, 422, "exactly one"),
            ({"input": ["a"] * LENGTH}, 422, "input"),
        ]:
            refusal = client.post("/api/search", json=wrong)
            assert refusal.status_code == status and words in refusal.json()["detail"]
        assert client.post("/api/search/image", content=b"x").status_code == 501


def test_a_file_of_vectors_is_served_as_it_is(folder: Path) -> None:
    with serving(create_app(_explorer(folder / "x.npy", None))) as client:
        about = client.get("/api/about").json()
        assert (about["name"], about["texts"], about["vector_length"]) == ("x.npy", False, LENGTH)
        assert about["model"] is None and about["n_components"] == LENGTH
        cosine = ROWS @ ROWS[9] / np.linalg.norm(ROWS, axis=1)
        assert found(client, input=(2 * ROWS[9]).tolist()) == [str(row) for row in np.argsort(-cosine)[:3]]
    assert "--images" in refused("serve", folder / "x.npy", "--images", folder, "--port", 0)


def test_each_of_two_spaces_can_be_searched_by(folder: Path) -> None:
    model = vector_model(True)
    model.right = vector_model(True, seed=2, length=9)
    model.save(folder / "both")
    index = CodeIndex(FEATURES, fingerprint=model.weights_sha256)
    index.add(model.encode(ROWS), [str(row) for row in range(30)])
    index.save(folder / "both.index", model_dir=folder / "both")
    explorer = Explorer.open(folder / "both.index")
    other = np.random.default_rng(1).normal(size=9)
    np.testing.assert_allclose(explorer.encode_vector(other.tolist()), model.right.encode(other[None])[0], atol=1e-6)
    np.testing.assert_allclose(explorer.encode_vector(ROWS[0].tolist()), model.encode(ROWS[:1])[0], atol=1e-6)


def test_pictures_are_not_searched_by_vectors(client: httpx.Client) -> None:
    about = client.get("/api/about").json()
    assert (about["texts"], about["vector_length"], about["can_encode"]) == (False, None, True)
    assert client.post("/api/search", json={"input": [1.0]}).status_code == 422
