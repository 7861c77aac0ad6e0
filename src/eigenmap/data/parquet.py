"""Parquet files: pyarrow where it is installed, and one sentence for whatever is wrong with a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError


def parquet_module() -> Any:
    """pyarrow.parquet, or a sentence that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise EigenmapError('parquet files need pyarrow: pip install "eigenmap[parquet]"') from None
    return pyarrow.parquet


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Whatever Arrow says of a damaged file, as one sentence."""
    try:
        yield
    except EigenmapError:
        raise
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read as a parquet file: {error.strerror or error}") from None
    except Exception as error:  # a damaged file can fail anywhere inside Arrow
        raise EigenmapError(f"{file} cannot be read as a parquet file: {str(error) or 'it is damaged'}") from None


def batches(source: Any, file: Path, rows: int, **which: Any) -> Iterator[Any]:
    """So many rows of an open file at a time; the footer of a damaged file may be whole."""
    with readable(file):
        yield from source.iter_batches(batch_size=rows, **which)
