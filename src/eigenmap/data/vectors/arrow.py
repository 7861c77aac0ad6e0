"""Vectors in Arrow and Parquet files, as one matrix.

Arrow files of fixed-size lists are memory-mapped. Parquet files and lists of variable size are decoded batch by batch
into an unnamed temporary file, which is memory-mapped, so memory does not grow with the number of rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError
from eigenmap.data.parquet import readable

SUFFIXES = (".parquet", ".arrow", ".feather", ".ipc")
ID_COLUMNS = ("id", "name", "key", "file", "path")
VECTOR_COLUMNS = ("vector", "embedding", "embeddings", "emb", "code")
_AT_A_TIME = 4_096
"""Rows decoded at a time."""


class Rows(NamedTuple):
    """A matrix, and the names of its rows or None."""

    rows: npt.NDArray[Any]
    ids: Sequence[str] | None


def is_arrow(source: object) -> bool:
    """Tell whether an object comes from pyarrow, without importing pyarrow."""
    return type(source).__module__.split(".")[0] == "pyarrow"


def is_file(file: Path) -> bool:
    """Tell whether a file name is that of a Parquet or Arrow file."""
    return file.suffix.lower() in SUFFIXES


def schema(file: Path) -> Any:
    """Return the schema of a file."""
    if file.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        return pq.read_schema(file)
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        return pa.ipc.open_file(mapped).schema


def batches(file: Path, columns: Sequence[str], rows: int) -> Iterator[Any]:
    """Yield some columns of a file in batches of `rows` rows."""
    if file.suffix.lower() == ".parquet":
        import pyarrow.parquet as pq

        yield from pq.ParquetFile(file).iter_batches(batch_size=rows, columns=[*columns])
        return
    import pyarrow as pa

    with pa.memory_map(str(file)) as mapped:
        yield from pa.ipc.open_file(mapped).read_all().select([*columns]).to_batches(rows)


def from_file(file: Path, column: str | None = None) -> Rows:
    """Read the column of vectors of a Parquet or Arrow file, and its ids."""
    with readable(file):
        if file.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            source = pq.ParquetFile(file)
            chosen, ident = _columns(source.schema_arrow, str(file), column)
            batches = source.iter_batches(batch_size=_AT_A_TIME, columns=[c for c in (chosen, ident) if c])
            return _spooled(batches, source.metadata.num_rows, chosen, ident, str(file))
        import pyarrow as pa

        with pa.memory_map(str(file)) as mapped:
            table = pa.ipc.open_file(mapped).read_all()
            table.validate(full=True)  # a damaged length would end the process, not raise
        return _from_table(table, str(file), column)


def from_memory(source: Any, name: str) -> Rows:
    """Convert an Arrow array, chunked array, batch or table."""
    with readable(name):
        import pyarrow as pa

        if isinstance(source, pa.RecordBatch):
            source = pa.Table.from_batches([source])
        if isinstance(source, pa.Table):
            return _from_table(source, name, None)
        if isinstance(source, pa.Array):
            source = pa.chunked_array([source])
        if not isinstance(source, pa.ChunkedArray):
            raise EigenmapError(f"{name} must be an Arrow array or table, not {type(source).__name__}.")
        return _from_table(pa.table({"vector": source}), name, "vector")


def _from_table(table: Any, name: str, column: str | None) -> Rows:
    import pyarrow as pa

    chosen, ident = _columns(table.schema, name, column)
    ids = None if ident is None else _names(table[ident])
    chunks = table[chosen].chunks
    if len(chunks) == 1 and pa.types.is_fixed_size_list(chunks[0].type) and not chunks[0].null_count:
        flat = chunks[0].flatten()
        if not flat.null_count:
            return Rows(flat.to_numpy(zero_copy_only=True).reshape(len(chunks[0]), -1), ids)
    made = _spooled(iter(table.select([chosen]).to_batches(_AT_A_TIME)), len(table), chosen, None, name)
    return Rows(made.rows, ids)


def _columns(schema: Any, name: str, asked: str | None) -> tuple[str, str | None]:
    """Return the names of the columns of vectors and of ids."""
    lists = [field.name for field in schema if _is_vectors(field.type)]
    ident = next((field.name for field in schema if field.name in ID_COLUMNS and field.name not in lists), None)
    if asked is not None:
        if asked not in lists:
            raise EigenmapError(f"{name} has no column {asked} of lists of numbers (it has: {_listed(lists)}).")
        return asked, ident
    usual = [column for column in VECTOR_COLUMNS if column in lists]
    if len(lists) == 1 or usual:
        return (lists[0] if len(lists) == 1 else usual[0]), ident
    if not lists:
        raise EigenmapError(f"{name} has no column of lists of numbers (it has: {_listed(schema.names)}).")
    raise EigenmapError(
        f"{name} has several columns of vectors, {_listed(lists)}; choose one, for example {name}:{lists[0]}."
    )


def _is_vectors(kind: Any) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return False
    return bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _spooled(batches: Iterator[Any], rows: int, column: str, ident: str | None, name: str) -> Rows:
    """Return all batches as one matrix, memory-mapped from a temporary file that is deleted with it."""
    ids: list[str] = []
    width, count, dtype = None, 0, np.dtype(np.float32)
    with tempfile.TemporaryFile() as spool:
        for batch in batches:
            block, width = _block(batch.column(column), width, count, name)
            dtype = block.dtype
            if ident is not None:
                ids += _names(batch.column(ident))
            spool.write(np.ascontiguousarray(block).tobytes())
            count += len(block)
        spool.flush()
        if count != rows:
            raise EigenmapError(f"{name} is damaged: it should have {rows:,} rows, but has {count:,}.")
        if not count or not width:
            return Rows(np.empty((count, width or 0), dtype), ids or None)
        matrix = np.memmap(spool, dtype, "r", shape=(count, width))
    return Rows(matrix, ids or None)


def _names(column: Any) -> list[str]:
    """Return ids as texts; a missing one is empty, and texts may be stored as bytes."""
    values = column.to_pylist()
    return [value.decode(errors="backslashreplace") if isinstance(value, bytes) else _text(value) for value in values]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _block(values: Any, width: int | None, first: int, name: str) -> tuple[npt.NDArray[Any], int]:
    """Return the rows of a batch and their length, which must equal that of earlier rows."""
    import pyarrow as pa

    if values.null_count:
        row = first + values.is_null().to_pylist().index(True)
        raise EigenmapError(f"Row {row:,} of {name} (counted from 0) has no vector.")
    if pa.types.is_fixed_size_list(values.type):
        lengths = np.full(len(values), values.type.list_size)
    else:
        lengths = np.asarray(values.value_lengths())
    width = int(lengths[0]) if width is None and len(lengths) else width or 0
    other = np.flatnonzero(lengths != width)
    if len(other):
        row = first + int(other[0])
        raise EigenmapError(
            f"Row {row:,} of {name} (counted from 0) has {int(lengths[other[0]]):,} numbers, but the first row "
            f"has {width:,}; all rows must have the same length."
        )
    flat = values.flatten()
    if flat.null_count:
        row = first + flat.is_null().to_pylist().index(True) // max(width, 1)
        raise EigenmapError(f"Row {row:,} of {name} (counted from 0) contains a null; every entry must be a number.")
    return flat.to_numpy(zero_copy_only=False).reshape(len(values), width), width


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nothing"
