from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eigenmap import EigenmapError
from eigenmap.data.parquet import batches, parquet_module, readable


def test_batches_hold_all_rows_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(10)), "y": list("abcdefghij")}), path, row_group_size=4)
    parts = list(batches(parquet_module().ParquetFile(path), path, 3, columns=["x"]))
    assert [part.schema.names for part in parts] == [["x"]] * len(parts)
    assert [x for part in parts for x in part.column("x").to_pylist()] == list(range(10))
    assert max(map(len, parts)) == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(5, "Input/output error"), "Input/output error"),
        (ValueError("bad footer\n at byte 7\n"), "bad footer"),
        (RuntimeError(), "it is damaged"),
    ],
)
def test_whatever_fails_names_the_file(error: Exception, reason: str) -> None:
    with pytest.raises(EigenmapError, match=rf"a\.parquet.*{reason}$"), readable(Path("a.parquet")):
        raise error


def test_our_own_sentences_stay_as_they_are() -> None:
    with pytest.raises(EigenmapError, match="mine"), readable(Path("a.parquet")):
        raise EigenmapError("mine")
