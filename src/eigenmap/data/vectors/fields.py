"""Fields of vectors: names, texts and labels of the rows, from columns of their file or from text files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.data.parquet import readable
from eigenmap.data.vectors import arrow
from eigenmap.data.vectors.qrels import load_ids, load_lines
from eigenmap.data.vectors.vectors import Vectors, load_vectors, split_column

Value = str | int | float | bool
Fields = dict[str, Value]

SHOWN = ("title", "text", "label")
"""Columns that are kept by default."""
LONGEST_TEXT = 1_000
"""Maximum length of a text in characters; longer ones are cut."""
_AT_A_TIME = 4_096


@dataclass(frozen=True)
class Described:
    """Vectors with the fields of each row.

    Attributes:
        vectors: the vectors, with the names of the rows as ids, if there are any.
        file: the file of the vectors.
        columns: fields that are columns of the file.
        texts: one text per row, instead of a column `text`.

    """

    vectors: Vectors
    file: Path
    columns: tuple[str, ...] = ()
    texts: Sequence[str] | None = None

    def rows(self) -> Iterator[Fields]:
        """Yield the fields of each row, read on demand."""
        count = len(self.vectors)
        known = _column_rows(self.file, self.columns) if self.columns else ({} for _ in range(count))
        if self.texts is None:
            return known
        return ({**fields, "text": _cut(text)} for fields, text in zip(known, self.texts, strict=True))


def describe(
    source: Path, ids: str | None = None, texts: Path | None = None, columns: Sequence[str] | None = None
) -> Described:
    """Open vectors with the fields of their rows.

    Args:
        source: a file of vectors, see `load_vectors`.
        ids: a column of that file, or a text file with one name per row; default the column `id`, or row numbers.
        texts: a text file with one text per row.
        columns: columns to keep; default those of `SHOWN` that the file has.

    """
    vectors, file = load_vectors(source), split_column(source)[0]
    known = _plain_columns(file)
    if ids is not None:
        vectors = replace(vectors, ids=_names(ids, file, known, len(vectors)))
    refuse_unnamed(vectors, ids or str(file))
    for name in columns or ():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise EigenmapError(f"{file} has no column {name} of texts or numbers (it has: {listed}).")
    wanted = tuple(name for name in SHOWN if name in known) if columns is None else tuple(columns)
    lines = None if texts is None else load_lines(texts, len(vectors), "texts")
    return Described(vectors, file, wanted, lines)


def _names(asked: str, file: Path, known: Sequence[str], count: int) -> list[str]:
    if asked in known:
        return [str(fields.get(asked, "")) for fields in _column_rows(file, [asked])]
    if Path(asked).is_file():
        return load_ids(Path(asked), count)
    column = f"{file} has no column {asked}, and the" if arrow.is_file(file) else "The"
    raise EigenmapError(f"{column} file {asked} does not exist; give a text file with one name per row.")


def refuse_unnamed(vectors: Vectors, where: str) -> None:
    """Refuse names that are missing in some rows only."""
    empty = next((row for row, name in enumerate(vectors.ids or ()) if not name), None)
    if empty is not None:
        raise EigenmapError(f"Row {empty:,} (counted from 0) has no name in {where}.")


def _plain_columns(file: Path) -> list[str]:
    """Return the columns of strings, numbers or booleans, also as the categories of a data frame."""
    if not arrow.is_file(file):
        return []
    with readable(file):
        return [field.name for field in arrow.schema(file) if _is_plain(field.type)]


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
    )
    return any(test(kind) for test in tests)


def _column_rows(file: Path, columns: Sequence[str]) -> Iterator[Fields]:
    row = -1
    with readable(file):
        for batch in arrow.batches(file, columns, _AT_A_TIME):
            lists = [batch.column(name).to_pylist() for name in columns]
            for values in zip(*lists, strict=True):
                row += 1
                known = dict(zip(columns, values, strict=True))
                for name, value in known.items():
                    if isinstance(value, float) and math.isinf(value):
                        raise EigenmapError(f"Row {row:,} of {file} (counted from 0) has an infinite {name}.")
                yield {
                    name: _cut(value) if name == "text" else value for name, value in known.items() if _is_value(value)
                }


def _is_value(value: Any) -> bool:
    """Tell whether a value is neither missing nor NaN."""
    return value is not None and value == value


def _cut(text: Value) -> Value:
    return f"{text[: LONGEST_TEXT - 1]}…" if isinstance(text, str) and len(text) > LONGEST_TEXT else text
