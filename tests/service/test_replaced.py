"""An index that another takes the place of while it is served: of the same model, or of another one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from eigenmap import fit_images
from eigenmap.core.errors import EigenmapError, ReplacedError
from eigenmap.core.folders import exchange
from eigenmap.search import CodeIndex
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer, key_of
from tests.cli.run import succeed
from tests.end_to_end.photos import pictures
from tests.service.pictures import encoded
from tests.service.running import serving

NAME = "disc/1.png"


@pytest.fixture(scope="module")
def other_index(photo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same photos by another model, of as many features."""
    folder = tmp_path_factory.mktemp("other")
    fit_images(
        pictures(60, seed=1), 8, steps=4, batch_size=32, codes="projector", hidden=64, out=folder / "model",
        device="cpu", progress=False, seed=1,
    )  # fmt: skip
    succeed("index", folder / "model", photo_folder, "--out", folder / "photos.index", "--quiet")
    return folder / "photos.index"


@pytest.fixture
def place(served_index: Path, tmp_path: Path) -> Path:
    return shutil.copytree(served_index, tmp_path / "photos.index")


@pytest.fixture
def client(place: Path) -> Iterator[httpx.Client]:
    explorer = Explorer.open(place)
    explorer.prepare()
    with serving(create_app(explorer)) as made:
        yield made


def replace(place: Path, by: Path) -> None:
    new = shutil.copytree(by, place.with_name("new"))
    exchange(new, place)
    shutil.rmtree(new)


def settled(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """The first answer that is not "try again"."""
    last = time.monotonic() + 120
    while (answer := ask()).status_code == 503 and time.monotonic() < last:
        assert answer.headers["retry-after"] == "1" and "was replaced" in answer.json()["detail"]
        assert "content-security-policy" in answer.headers
        time.sleep(0.02)
    return answer


def truth(place: Path, name: str) -> list[tuple[str, float]]:
    """What a search by an item finds in an index, and how alike it is."""
    index = CodeIndex.open(place)
    found = index.search(index.codes([name]), 8)
    return [(str(n), round(s, 5)) for n, s in zip(found.ids[0], found.scores[0].tolist(), strict=True) if n != name]


def ranked(answer: httpx.Response) -> list[tuple[str, float]]:
    assert answer.status_code == 200, answer.text
    return [(item["id"], round(item["score"], 5)) for item in answer.json()["items"]]


def search(client: httpx.Client, **asked: Any) -> httpx.Response:
    return client.post("/api/search", json={"top": 7} | asked)


def test_an_index_of_another_model_is_opened_with_its_model(
    client: httpx.Client, place: Path, other_index: Path
) -> None:
    before = client.get("/api/about").json()
    assert ranked(search(client, id=NAME)) == truth(place, NAME)
    replace(place, other_index)
    first = search(client, id=NAME)
    assert first.status_code == 503  # never the new codes ranked as if they were the old ones
    assert ranked(settled(lambda: search(client, id=NAME))) == truth(other_index, NAME)
    after = settled(lambda: client.get("/api/about")).json()
    assert after["model"] != before["model"] and after["eigenvalues"] != before["eigenvalues"]
    picture = encoded("PNG")
    code = Explorer.open(other_index).encode(picture, 10**6)
    assert client.post("/api/search/image", content=picture).json()["vector"] == pytest.approx(code, abs=1e-5)
    gallery = client.get("/api/features", params={"pictures": True}).json()
    codes = CodeIndex.open(other_index)
    best = int(codes.codes(codes.ids)[:, 0].argmax())
    assert gallery[0]["most"][0]["id"] == codes.ids[best]


@pytest.mark.parametrize("path", ["/api/about", f"/api/items/{key_of(NAME)}", f"/api/images/{key_of(NAME)}"])
def test_whatever_needs_the_index_notices(client: httpx.Client, place: Path, other_index: Path, path: str) -> None:
    replace(place, other_index)
    assert client.get(path).status_code == 503
    assert settled(lambda: client.get(path)).status_code == 200


def test_a_vector_of_the_model_before_is_refused(client: httpx.Client, place: Path, other_index: Path) -> None:
    uploaded = client.post("/api/search/image", content=encoded("PNG")).json()
    vector, model = uploaded["vector"], uploaded["model"]
    assert model == client.get("/api/about").json()["model"] is not None
    assert search(client, vector=vector, model=model).status_code == 200
    replace(place, other_index)
    answer = settled(lambda: search(client, vector=vector, model=model))
    assert answer.status_code == 409 and "another model" in answer.json()["detail"]
    new = client.post("/api/search/image", content=encoded("PNG")).json()
    assert search(client, vector=new["vector"], model=new["model"]).status_code == 200


def test_an_upload_encoded_by_the_model_before_is_not_ranked_by_the_new_one(
    client: httpx.Client, place: Path, other_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Explorer.encode

    def replaced_meanwhile(self: Explorer, body: bytes, most_pixels: int) -> tuple[float, ...]:
        code = encode(self, body, most_pixels)
        monkeypatch.setattr(Explorer, "encode", encode)
        replace(place, other_index)
        settled(lambda: client.get("/api/about"))  # the new index answers already
        return code

    monkeypatch.setattr(Explorer, "encode", replaced_meanwhile)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.post, "/api/search/image", content=encoded("PNG")).result(timeout=120)
    assert answer.status_code == 503


def test_an_index_of_the_same_model_is_simply_read(client: httpx.Client, place: Path, tmp_path: Path) -> None:
    fewer = shutil.copytree(place, tmp_path / "fewer")
    CodeIndex.open(fewer).delete([NAME])
    assert search(client, id=NAME).status_code == 200
    replace(place, fewer)
    assert search(client, id=NAME).status_code == 404
    assert client.get("/api/about").json()["items"] == 29
    assert client.get(f"/api/images/{key_of(NAME)}").status_code == 404


def test_a_new_index_that_cannot_be_opened_is_tried_again(
    client: httpx.Client, place: Path, other_index: Path, tmp_path: Path
) -> None:
    broken = shutil.copytree(other_index, tmp_path / "broken")
    (broken / "codec.json").write_text("{")
    replace(place, broken)
    for _ in range(20):
        assert search(client, id=NAME).status_code == 503
    assert client.get("/api/health").status_code == 200
    shutil.copy(other_index / "codec.json", place / "codec.json")
    assert ranked(settled(lambda: search(client, id=NAME))) == truth(other_index, NAME)


def test_back_and_forth_under_load_every_answer_is_of_one_model(
    client: httpx.Client, place: Path, served_index: Path, other_index: Path
) -> None:
    """Whatever is asked while models change, an answer is one that one of them gives, whole."""
    right = {Explorer.open(one).model_name: truth(one, NAME) for one in (served_index, other_index)}
    assert len(right) == 2 and len({str(answer) for answer in right.values()}) == 2
    answers: list[httpx.Response] = []

    def ask(_: int) -> None:
        answers.append(search(client, id=NAME))

    with ThreadPoolExecutor(4) as pool:
        for turn in range(6):
            asking = pool.map(ask, range(60))
            replace(place, (other_index, served_index)[turn % 2])
            settled(lambda: search(client, id=NAME))
            list(asking)
    assert {answer.status_code for answer in answers} <= {200, 503}
    good = [answer for answer in answers if answer.status_code == 200]
    assert len(good) > 10
    for answer in good:
        assert ranked(answer) == right[answer.json()["model"]]


def test_an_explorer_made_by_hand_cannot_be_opened_again(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its back end says that it was replaced, and all that can be said is to try again."""
    made = Explorer(explorer.index, None, "by hand", explorer.small)
    made.prepare()

    def gone(*_: object, **__: object) -> None:
        raise ReplacedError("the index was replaced")

    with serving(create_app(made)) as client:
        monkeypatch.setattr(CodeIndex, "search", gone)
        monkeypatch.setattr(CodeIndex, "__len__", gone)
        assert search(client, id=NAME).status_code == 503
        assert "replaced" in search(client, id=NAME).json()["detail"]
        with pytest.raises(EigenmapError):
            made.again()
