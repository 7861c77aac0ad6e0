from __future__ import annotations

import numpy as np
import pytest

from eigenmap.cli.search.results import results_as_json, show_results
from eigenmap.search import Results


def test_json_has_what_was_found_and_how() -> None:
    one = Results([["a/1.png", "b/2.png"]], np.float32([[0.75, 0.5]]), 0.5, 4)
    assert results_as_json("photos.index", "cosine", ["q.jpg"], one) == {
        "index": "photos.index",
        "dim": 4,
        "similarity": "cosine",
        "recall": 0.5,
        "results": [{"query": "q.jpg", "found": [{"id": "a/1.png", "score": 0.75}, {"id": "b/2.png", "score": 0.5}]}],
    }


def test_tables_have_a_title_and_a_line_an_item(capsys: pytest.CaptureFixture[str]) -> None:
    show_results(["q [b].jpg"], Results([["a/[1].png"]], np.float32([[0.75]])))
    out = capsys.readouterr().out
    assert out.startswith("q [b].jpg\n") and "1 \u2502 0.7500 \u2502 a/[1].png" in out


def test_items_that_are_no_files_have_another_heading(capsys: pytest.CaptureFixture[str]) -> None:
    show_results(["0"], Results([["22"]], np.float32([[0.75]])), {"22": "a title"}, heading="item")
    assert "item \u2503 title" in capsys.readouterr().out
