"""The explorer with rows of text in place of pictures, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser

from eigenmap.search import CodeIndex
from eigenmap.service.app import create_app
from eigenmap.service.explorer import Explorer
from tests.cli.run import succeed
from tests.end_to_end.browser import Tab, browser
from tests.formats.models import vector_model
from tests.service.running import serving

TOPICS = ("cats and dogs", "compilers", "weather", "chess", "cooking rice", "space flight")
COUNT = "n => document.querySelectorAll('#results-a .words-only').length === n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with titles, texts and vectors around six topics; a model, and an index of it."""
    place = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    topic = rng.integers(0, len(TOPICS), 240)
    vectors = (2 * rng.normal(size=(len(TOPICS), 12))[topic] + rng.normal(size=(240, 12))).astype(np.float32)
    long = "It goes on for a while about this and that, so that a card has to cut it somewhere. " * 4
    columns = {
        "id": [f"doc-{row}" for row in range(240)],
        "vector": pa.array(vectors.tolist(), pa.list_(pa.float32())),
        "title": [f"Note {row} about {TOPICS[k]}" for row, k in enumerate(topic)],
        "text": [f"Number {row} talks of {TOPICS[k]}. {long}" for row, k in enumerate(topic)],
        "label": [TOPICS[k] for k in topic],
    }
    pq.write_table(pa.table(columns), place / "docs.parquet")
    np.save(place / "query.npy", vectors[7:9].astype(np.float16))
    vector_model(True).save(place / "run")
    succeed("index", place / "run", place / "docs.parquet", "--out", place / "docs.index", "--quiet")
    succeed("index", place / "docs.parquet", "--out", place / "plain.index", "--quiet")
    return place


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


@pytest.fixture(scope="session")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("EIGENMAP_SCREENSHOTS")
    return Path(kept) if kept else tmp_path_factory.mktemp("screenshots")


@pytest.mark.parametrize("name", ["docs.index", "plain.index"])
def test_texts_are_found_by_row_and_by_vector(folder: Path, chromium: Browser, shots: Path, name: str) -> None:
    with serving(create_app(Explorer.open(folder / name))) as client:
        tab = Tab(chromium, str(client.base_url).rstrip("/"))
        page = tab.open("dim=7&top=12")
        tab.until(COUNT, 12)
        card = page.locator("#results-a .item").first
        assert " about " in card.locator(".title").inner_text() and "talks of" in card.locator(".text").inner_text()
        assert page.locator("#results-a img").count() == page.locator("#query-picture img").count() == 0
        tab.shot(shots, f"texts-{name}")
        wanted = card.locator(".title").inner_text()
        card.click()
        tab.until("title => document.getElementById('query-name').textContent === title", wanted)
        assert wanted not in page.locator("#results-a .title").all_inner_texts()

        page.locator("#file").set_input_files(folder / "query.npy")
        tab.until("() => document.getElementById('query-name').textContent === 'query.npy'")
        tab.until(COUNT, 12)
        assert page.locator("#results-a .title").first.inner_text().startswith("Note 7 about ")
        assert "vector" in tab.state() and page.locator("#pick").inner_text() == "Choose vector"
        page.locator("#file").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"no numbers"})
        tab.until("() => document.getElementById('said').textContent.includes('not a vector')")
        tab.close()


def test_features_and_map_show_titles(folder: Path, chromium: Browser, shots: Path) -> None:
    with serving(create_app(Explorer.open(folder / "docs.index"))) as client:
        tab = Tab(chromium, str(client.base_url).rstrip("/"))
        page = tab.open("view=gallery")
        tab.until("() => document.querySelectorAll('.feature').length === 7")
        assert page.locator(".strip.lines button").first.inner_text().startswith("Note ")
        tab.shot(shots, "texts-gallery")
        page.locator(".feature .head").first.click()
        tab.until("() => document.querySelectorAll('#sorted-items .words-only').length === 96")
        tab.open("view=map")
        tab.until("() => document.getElementById('map-said').textContent.includes('as texts')")
        page.wait_for_timeout(200)
        tab.shot(shots, "texts-map")
        tab.close()


def test_a_narrow_page_does_not_overflow(folder: Path, chromium: Browser, shots: Path) -> None:
    with serving(create_app(Explorer.open(folder / "docs.index"))) as client:
        tab = Tab(chromium, str(client.base_url).rstrip("/"), width=390, height=844)
        for view, ready in (
            ("", "() => document.querySelectorAll('#results-a .words-only').length"),
            ("compare=random", "() => document.querySelectorAll('#results-b .words-only').length"),
            ("view=gallery", "() => document.querySelectorAll('.feature').length"),
            ("view=map", "() => document.getElementById('map-said').textContent.includes('as texts')"),
        ):
            page = tab.open(view)
            tab.until(ready)
            page.wait_for_timeout(100)
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            tab.shot(shots, f"texts-390-{view or 'search'}")
        tab.close()


def test_a_chart_that_needs_labels_says_so(tmp_path: Path, chromium: Browser, shots: Path) -> None:
    index = CodeIndex(4, where=tmp_path / "plain.index")
    index.add(np.random.default_rng(0).normal(size=(20, 4)), [f"item {i}" for i in range(20)])
    explorer = Explorer.open(tmp_path / "plain.index")
    app = create_app(explorer)
    with serving(app) as client:
        tab = Tab(chromium, str(client.base_url).rstrip("/"))
        page = tab.open()
        tab.until("() => document.getElementById('quality').textContent.startsWith('Needs labels')")
        tab.until("() => document.querySelectorAll('#results-a .item').length === 19")
        tab.shot(shots, "no-labels")
        explorer.quality_known = False  # as while it is being measured
        page.reload()
        tab.until("() => document.getElementById('quality').textContent.startsWith('Being measured')")
        tab.close()
