"""Access to Parquet and Arrow files through pyarrow, with one-sentence errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError


def parquet_module() -> Any:
    """Import pyarrow.parquet, or raise an error that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise EigenmapError('Parquet and Arrow files need pyarrow: pip install "eigenmap[parquet]"') from None
    return pyarrow.parquet


@contextmanager
def readable(file: object) -> Iterator[None]:
    """Turn any error of Arrow about a file into one sentence."""
    try:
        yield
    except EigenmapError:
        raise
    except ImportError:
        raise EigenmapError('Parquet and Arrow files need pyarrow: pip install "eigenmap[parquet]"') from None
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read as a Parquet or Arrow file: {error.strerror or error}") from None
    except Exception as error:  # a damaged file can fail anywhere inside Arrow
        reason = (str(error).strip().splitlines() or ["it is damaged"])[0]
        raise EigenmapError(f"{file} cannot be read as a Parquet or Arrow file: {reason}") from None


def batches(source: Any, file: Path, rows: int, **which: Any) -> Iterator[Any]:
    """Yield batches of rows of an open file; a file may be damaged although its footer is intact."""
    with readable(file):
        yield from source.iter_batches(batch_size=rows, **which)
