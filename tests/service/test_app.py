from __future__ import annotations

import io
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image

from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from eigenmap.service.scheduling import Limits
from eigenmap.service.thumbnails import StoredPictures
from tests.service.running import serving

STATIC = ("style.css", "app.js", "api.js", "charts.js", "gallery.js", "map.js", "search.js")


def test_the_page_needs_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for name in STATIC:
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text and "https://" not in text and "//cdn" not in text
    assert client.get("/static/app.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "path",
    [
        "/static/nothing.js", "/static/index.html", "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py",
        "/../../../../etc/passwd", "/static//etc/passwd", "/api/images/Li4vLi4vZXRjL3Bhc3N3ZA", "/docs", "/redoc",
    ],
)  # fmt: skip
def test_no_path_of_the_disk_can_be_requested(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_about(client: httpx.Client, explorer: Explorer) -> None:
    about = client.get("/api/about").json()
    assert (about["items"], about["n_components"], about["name"]) == (30, 8, "photos.index")
    assert about["bytes_per_item"] == [4 * dim for dim in range(1, 9)]
    assert about["eigenvalues"] == explorer.eigenvalues() and about["can_encode"]
    assert about["fields"] == {"label": ["bars", "disc", "stripes"]} and about["classes"] == ["bars", "disc", "stripes"]
    lengths = client.get("/api/lengths").json()
    assert [row["total_bytes"] for row in lengths] == [30 * 4 * dim for dim in range(1, 9)]
    assert client.get("/api/health").json() == {"status": "ok"}


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_every_way_to_search_finds_the_same(client: httpx.Client, explorer: Explorer, photo_folder: Path) -> None:
    name = "disc/1.png"
    (code,) = explorer.index.codes([name])
    expected = [one for one in explorer.index.search(code, 7, 5).ids[0] if one != name][:6]
    asked = {"dim": 5, "top": 6}
    item = client.get("/api/search", params={"id": name, "top": 1}).json()["items"][0]
    key = client.get("/api/search", params={"id": item["id"], "top": 29}).json()["items"]
    key = next(one["key"] for one in key if one["id"] == name)
    assert ids(client.get("/api/search", params=asked | {"id": name})) == expected
    assert ids(client.get("/api/search", params=asked | {"key": key})) == expected
    assert ids(client.post("/api/search", json=asked | {"id": name})) == expected
    assert ids(client.post("/api/search", json=asked | {"key": key})) == expected
    by_code = ids(client.post("/api/search", json={"vector": code.tolist(), "dim": 5, "top": 7}))
    assert by_code == [name, *expected]
    image = (photo_folder / name).read_bytes()
    uploaded = client.post("/api/search/image", params={"dim": 5, "top": 7}, content=image)
    assert ids(uploaded) == by_code
    np.testing.assert_allclose(uploaded.json()["vector"], code, atol=1e-5)


def test_filters(client: httpx.Client) -> None:
    found = client.get("/api/search", params={"id": "disc/1.png", "where": "label=bars", "top": 50}).json()["items"]
    assert len(found) == 10 and {item["metadata"]["label"] for item in found} == {"bars"}
    asked = {"id": "disc/1.png", "where": {"label": ["bars", "stripes"]}, "top": 50}
    assert len(client.post("/api/search", json=asked).json()["items"]) == 20
    both = client.get("/api/search", params={"id": "disc/1.png", "where": ["label>bars", "label<disc"], "top": 50})
    assert both.json()["items"] == []


def test_random_features(client: httpx.Client) -> None:
    full = [client.get("/api/search", params={"id": "disc/1.png", "features": kind}) for kind in ("ordered", "random")]
    assert sorted(ids(full[0])) == sorted(ids(full[1]))  # all features are all features
    assert full[1].json()["features"] == "random"


@pytest.mark.parametrize(
    ("parameters", "status", "reason"),
    [
        ({}, 422, "id.*key"),
        ({"id": "a", "key": "b"}, 422, "id.*key"),
        ({"id": "gone.jpg"}, 404, "no item"),
        ({"key": "*"}, 404, "no item"),
        ({"id": "disc/1.png", "dim": 9}, 422, "1 to 8.*9"),
        ({"id": "disc/1.png", "dim": 0}, 422, "dim: "),
        ({"id": "disc/1.png", "dim": "x"}, 422, "dim: "),
        ({"id": "disc/1.png", "top": 10_000}, 422, "top: "),
        ({"id": "disc/1.png", "where": "bars"}, 422, "condition"),
        ({"id": "disc/1.png", "features": "best"}, 422, "features: "),
    ],
)
def test_mistakes_in_a_search(client: httpx.Client, parameters: dict[str, Any], status: int, reason: str) -> None:
    answer = client.get("/api/search", params=parameters)
    assert answer.status_code == status and re.search(reason, answer.json()["detail"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422), (b"{", 422), (b"[]", 422), (b'{"vector": [1, 2]}', 422), (b'{"vector": [NaN]}', 422),
        (b'{"vector": "x"}', 422), (b'{"id": "a", "vector": [1]}', 422), (b'{"id": "gone"}', 404),
        (b'{"id": "disc/1.png", "where": {"label": {"~": 1}}}', 422), (b'{"id": "disc/1.png", "other": 1}', 422),
        (b'{"id": "disc/1.png", "where": {"label": {"==": {"a": 1}}}}', 400), (b"[" * 50_000, 400), (b"\xff", 400),
        (b'{"id": ' + b"9" * 5000 + b"}", 400), (b'{"id": "\\udce9"}', 404),
    ],
)  # fmt: skip
def test_mistakes_in_a_body(client: httpx.Client, body: bytes, status: int) -> None:
    answer = client.post("/api/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and answer.json()["detail"]


@pytest.mark.parametrize("kind", ["application/json", "image/jpeg", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("body", [b"", b"[]", b'{"vector":'])
def test_a_body_that_is_no_object(client: httpx.Client, body: bytes, kind: str) -> None:
    answer = client.post("/api/search", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 422
    assert re.match(r"the body .*JSON object.*application/json", answer.json()["detail"])


def test_pictures(client: httpx.Client, photo_folder: Path) -> None:
    item = client.get("/api/search", params={"id": "disc/1.png", "top": 1, "pictures": True}).json()["items"][0]
    answer = client.get(f"/api/images/{item['key']}")
    assert answer.headers["content-type"] == "image/png" and "max-age" in answer.headers["cache-control"]
    assert Image.open(io.BytesIO(answer.content)).size == (16, 16)
    assert item["picture"].startswith("data:image/png;base64,")
    assert client.get(f"/api/items/{item['key']}").json()["metadata"] == item["metadata"]
    pictured = client.get(f"/api/items/{item['key']}", params={"pictures": True}).json()
    assert pictured["picture"].startswith("data:image/") and pictured["metadata"] == item["metadata"]
    assert client.get("/api/items/Z29uZQ").status_code == client.get("/api/images/Z29uZQ").status_code == 404


def test_larger_pictures_come_from_the_folder(served_index: Path, photo_folder: Path) -> None:
    with serving(create_app(Explorer.open(served_index, photo_folder))) as client:
        assert client.get("/api/about").json()["large_pictures"]
        (item, *_) = client.get("/api/items", params={"number": 0}).json()["items"]
        answer = client.get(f"/api/images/{item['key']}")
        assert Image.open(io.BytesIO(answer.content)).size == (256, 256)


def test_the_gallery_and_the_collection_sorted_by_a_feature(client: httpx.Client, explorer: Explorer) -> None:
    features = client.get("/api/features", params={"pictures": True}).json()
    assert [feature["number"] for feature in features] == list(range(1, 9))
    codes = explorer.index.codes(explorer.index.ids)
    for feature in features:
        best = explorer.index.ids[int(codes[:, feature["number"] - 1].argmax())]
        assert feature["most"][0]["id"] == best and feature["most"][0]["picture"]
    assert [one["number"] for one in client.get("/api/features?first=3&count=2").json()] == [3, 4]
    pages = [client.get("/api/features/2/items", params={"offset": n, "limit": 20}).json() for n in (0, 20, 40)]
    assert [len(page["items"]) for page in pages] == [20, 10, 0] and pages[0]["total"] == 30
    values = [item["score"] for page in pages for item in page["items"]]
    assert values == sorted(values, reverse=True)
    least = client.get("/api/features/2/items", params={"first": "least", "limit": 1}).json()["items"][0]
    assert least["score"] == values[-1]
    for number in (0, 9, 10**12):
        assert client.get(f"/api/features/{number}/items").status_code == 404


def test_the_map(client: httpx.Client) -> None:
    found = client.get("/api/map", params={"x": 3, "y": 1}).json()
    assert found["count"] == 30 and len(found["points"]) == 4 * 30 * 4 // 3 and found["classes"]
    assert client.get("/api/map", params={"x": 9}).status_code == 404
    numbers = client.get("/api/items", params={"number": [0, 29]}).json()["items"]
    assert len({item["id"] for item in numbers}) == 2
    assert client.get("/api/items", params={"number": 30}).status_code == 404
    assert client.get("/api/items", params={"number": list(range(257))}).status_code == 422


def test_quality_against_length(client: httpx.Client) -> None:
    quality = client.get("/api/quality").json()
    assert quality["state"] == "ready" and quality["dims"] == [1, 2, 4, 8]
    assert quality["metric"] == "map_over_found@100" and quality["queries"] + quality["gallery"] == 30
    assert all(0 <= value <= 1 for value in quality["ordered"] + quality["random"])


def test_metrics_count_what_was_asked(client: httpx.Client) -> None:
    def count() -> int:
        lines = client.get("/metrics").text.splitlines()
        wanted = 'eigenmap_requests_total{route="/api/search",status="200"}'
        return next((int(line.split()[-1]) for line in lines if line.startswith(wanted)), 0)

    before = count()
    client.get("/api/search", params={"id": "disc/1.png"})
    assert count() == before + 1


def test_uploads_are_bounded_and_never_kept(
    explorer: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    limits = Limits(upload_bytes=2_000_000, upload_pixels=1200 * 1200)
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (1200, 1200), np.uint8))
    out = io.BytesIO()
    noise.save(out, "PNG")
    with serving(create_app(explorer, limits)) as client:
        assert client.post("/api/search/image", content=out.getvalue()).status_code == 200  # 1.4 MB
        for body, status in ((bytes(2_000_001), 413), (b"", 415), (b"text", 415)):
            answer = client.post("/api/search/image", content=body)
            assert answer.status_code == status and answer.json()["detail"]
        out = io.BytesIO()
        Image.new("L", (1201, 1200)).save(out, "PNG")
        assert client.post("/api/search/image", content=out.getvalue()).status_code == 413
    assert list(tmp_path.iterdir()) == []


class HeldUp:
    """The model's place: every upload waits here until it may go on."""

    def __init__(self, explorer: Explorer) -> None:
        self.go, self.entered, self.explorer = threading.Event(), threading.Semaphore(0), explorer

    def __call__(self, body: bytes, most_pixels: int) -> tuple[float, ...]:
        self.entered.release()
        assert self.go.wait(20)
        return (1.0,) * self.explorer.index.n_components


def test_more_uploads_than_fit_get_429_and_recover(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    held = HeldUp(explorer)
    monkeypatch.setattr(explorer, "encode", held)
    with serving(create_app(explorer, Limits(uploads_waiting=0))) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/api/search/image", content=b"x")
        assert held.entered.acquire(timeout=20)
        busy = client.post("/api/search/image", content=b"x")
        assert busy.status_code == 429 and busy.headers["retry-after"] == "1"
        assert client.get("/api/search", params={"id": "disc/1.png"}).status_code == 200  # others are not held up
        held.go.set()
        assert first.result().status_code == 200
        assert client.post("/api/search/image", content=b"x").status_code == 200


def test_an_item_without_a_picture_says_so(explorer: Explorer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(explorer, "small", StoredPictures(tmp_path))
    with serving(create_app(explorer)) as client:
        asked = {"id": "disc/1.png", "top": 1}
        assert "picture" not in client.get("/api/search", params=asked).json()["items"][0]
        assert client.get("/api/search", params=asked | {"pictures": True}).json()["items"][0]["picture"] is None
