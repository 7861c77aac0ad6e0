from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psycopg
import pytest

from benchmarks.common import harness
from benchmarks.scale import postgres
from benchmarks.scale.postgres import Setting
from tests.database import tables


def test_every_setting_is_measured_against_exact_search(database: str) -> None:
    codes, queries, _ = postgres.codes_and_queries(None, items=400, queries=20, dim=16, seed=0)
    truth = postgres.exact(codes, queries, 10)
    scores = queries @ codes.T
    assert (np.take_along_axis(scores, truth, 1)[:, 0] == scores.max(axis=1)).all()
    asked = postgres.settings(16, [4], [50, 400])
    rows = list(postgres.pgvector_rows(codes, queries, truth, database, asked, single_queries=5))
    assert [row["method"] for row in rows][-3:] == [
        "pgvector HNSW on a prefix + rerank",
        "pgvector HNSW on the full vector",
        "pgvector, every item compared",
    ]
    by = {(row["precision"], row["prefix"], row["shortlist"]): row for row in rows}
    assert by["float32", None, 0]["recall@10"] == 1
    # A shortlist of everything is exact, whatever the prefix.
    assert by["float32", 4, 400]["recall@10"] == 1
    assert by["float32", 4, 50]["recall@10"] < 1
    assert by["float16", 4, 50]["table_bytes_per_item"] < by["float32", 4, 50]["table_bytes_per_item"]
    assert all(row["items"] == 400 and row["queries_per_second_batch"] > 0 for row in rows)
    assert tables(database) == []


def test_codes_of_your_own(tmp_path: Path) -> None:
    rows = postgres.drawn(50, 4, seed=0)
    np.save(tmp_path / "mine.npy", rows)
    codes, queries, name = postgres.codes_and_queries(tmp_path / "mine.npy", items=47, queries=3, dim=0, seed=0)
    assert name == "mine"
    np.testing.assert_array_equal(np.concatenate([codes, queries]), rows)
    labels = {"gallery_labels": np.zeros(40), "query_labels": np.zeros(10), "eigenvalues": np.ones(4)}
    np.savez(tmp_path / "mine.npz", gallery=rows[:40], queries=rows[40:], **labels)
    codes, queries, name = postgres.codes_and_queries(tmp_path / "mine.npz", items=30, queries=5, dim=0, seed=0)
    assert name == "mine" and queries.shape == (5, 4)
    np.testing.assert_allclose(codes, rows[:30], atol=1e-6)
    codes, queries, name = postgres.codes_and_queries(tmp_path / "mine.npz", items=70, queries=5, dim=0, seed=0)
    assert name == "drawn from a mixture fitted to mine"
    assert codes.shape == (70, 4) and queries.shape == (5, 4)


def test_a_run_that_was_cut_off_goes_on(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "result.json"
    command = ["search_postgres.py", "--items", "200", "--queries", "5", "--dim", "8", "--prefixes", "4"]
    monkeypatch.setattr(sys, "argv", [*command, "--shortlists", "50", "--to", database, "--out", str(out)])
    postgres.main()
    result = json.loads(out.read_text())
    assert len(result["rows"]) == 4
    kept = result["rows"].pop(0) | {"build_seconds": 12345.0}
    out.write_text(json.dumps(result | {"rows": [kept]}))
    postgres.main()
    rows = json.loads(out.read_text())["rows"]
    assert rows[0] == kept and len(rows) == 4
    assert harness.stored_rows(out, {"items": 7}) == []


def test_names_of_methods() -> None:
    assert Setting("float32", None, 0, 8).method == "pgvector, every item compared"


def test_a_request_to_end_stops_the_server() -> None:
    program = """
import time
from benchmarks.scale import postgres
postgres.end_on_sigterm()
with postgres.server() as url:
    print(url, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment()) as one:
        assert one.stdout is not None
        url = one.stdout.readline().strip()
        psycopg.connect(url).close()
        one.terminate()
        assert one.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
