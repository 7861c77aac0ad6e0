from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.scale import tables

ENVIRONMENT = {"date": "2026-01-01", "commit": "abc", "device": "cpu, 1 threads", "python": "3", "torch": "2"}


def test_every_figure_is_on_the_page(tmp_path: Path) -> None:
    embedding: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "protocol": {"shard_size": 1024},
        "rows": [{"how": "streamed", "images": 10_000, "peak_mb": 345.6, "images_per_second": 1234.5}],
    }
    row = {"method": "HNSW", "precision": "float16", "prefix": 32, "shortlist": 100, "dim": 256, "items": 5}
    row |= {"table_bytes_per_item": 11.0, "hnsw_bytes_per_item": 22.0, "bytes_per_item": 33.0, "recall@10": 0.987}
    row |= {"queries_per_second_batch": 4444.0, "queries_per_second_single": 555.0, "build_seconds": 66.0}
    whole = row | {"prefix": None, "shortlist": 0}
    postgres: dict[str, Any] = {"environment": ENVIRONMENT, "protocol": {"items": 5}, "rows": [row, whole]}
    for name, result in (("embedding", embedding), ("postgres-test", postgres)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
    page = tables.page(tmp_path)
    assert "| streamed | 10,000 | 346 | 1,234 |" in page
    assert "| HNSW | float16 | 32 | 100 | 0.987 | 555 | 4,444 | 11 | 22 | 33 | 66 |" in page
    assert "| HNSW | float16 | – | – |" in page
    assert page.count("commit abc; 2026-01-01") == 2
    assert "shard size: 1024" in page


def test_what_is_lost_comes_first(tmp_path: Path) -> None:
    rows = [
        {"how": "streamed", "images": 10, "peak_mb": 300.0, "images_per_second": 90.0},
        {"how": "all in memory", "images": 10, "peak_mb": 200.0, "images_per_second": 80.0},
        {"how": "streamed", "images": 99, "peak_mb": 300.0, "images_per_second": 90.0},
        {"how": "all in memory", "images": 99, "peak_mb": 900.0, "images_per_second": 80.0},
    ]
    content = {"environment": ENVIRONMENT, "protocol": {}, "rows": rows}
    (tmp_path / "embedding.json").write_text(json.dumps(content))
    lost, won = tables.page(tmp_path).split("## Memory")[0].split("Won:")
    assert "Embedding 10 small pictures" in lost and "Embedding 99 small pictures" in won
