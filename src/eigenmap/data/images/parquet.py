"""Streams of encoded images in Parquet files, read one row group at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.folders import require_files
from eigenmap.data.images.labels import Labels
from eigenmap.data.images.rows import RawImage, Shard, Survey, Whole, digest_of, runs, stamp_of, unchanged
from eigenmap.data.parquet import batches, parquet_module, readable

IMAGE_COLUMNS = ("jpeg", "jpg", "png", "image.bytes", "image", "img.bytes", "img", "bytes")
LABEL_COLUMNS = ("label", "labels")
ID_COLUMNS = ("id", "name", "file", "file_name", "filename", "path", "image_id")

_ROWS_AT_A_TIME = 64
_MOST_ROWS_PER_BYTE = 64
"""Maximum rows per byte of a file: rows without an image take hardly any space, but no file consists only of them."""


@dataclass(frozen=True)
class ParquetRows:
    """The rows start ... stop - 1, counted over all files."""

    files: list[Path]
    opened: str
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[tuple[str, RawImage]]:
        with unchanged(self, self.opened, self.files[0]):
            yield from named_rows(self.files, self.start, self.stop)

    def labels(self) -> list[list[str]]:
        """Return the classes of each row."""
        return [_classes(label) for _, label in _labelled_rows(self.files, self.start, self.stop)]

    def stamp(self) -> str:
        """Return a digest of the sizes and times of all files."""
        return stamp_of(self.files)


@dataclass(frozen=True)
class ParquetStream:
    """Rows of Parquet files with the same columns.

    Images are encoded files in the first column of ``jpeg``, ``jpg``, ``png``, ``image``, ``img`` (the last two also as
    a struct with ``bytes`` in it) and ``bytes``; labels are integers, names, or lists of either in ``label`` or
    ``labels``; ids come from the first of ``id``, ``name``, ``file``, ... or are "<file>/<row>".
    """

    files: list[Path]
    opened: str
    count: int

    def survey(self) -> Survey:
        """Read the ids."""
        ids = (name for name, _ in named_rows(self.files, 0, self.count, images=False))
        labelled = _find_columns(self.files[0]).label is not None
        return Survey(*digest_of(ids, self.opened), labelled=labelled)

    def shards(self, size: int) -> Iterator[Shard]:
        """Yield shards of the rows."""
        for number, (start, stop) in enumerate(runs(self.count, size)):
            yield Shard(number, ParquetRows(self.files, self.opened, start, stop))

    def whole(self) -> Whole:
        """Return all rows, with their ids and labels."""
        rows = list(_labelled_rows(self.files, 0, self.count))
        labels = _labels([label for _, label in rows]) if _find_columns(self.files[0]).label is not None else None
        return Whole(ParquetRows(self.files, self.opened, 0, self.count), [name for name, _ in rows], labels)


def parquet_stream(files: Sequence[Path]) -> ParquetStream:
    """Open Parquet files; only their footers are read."""
    files = [file.absolute() for file in files]
    opened = stamp_of(files)
    count = sum(int(_open(file).metadata.num_rows) for file in files)
    if count == 0:
        raise EigenmapError(f"{files[0]} contains no rows")
    return ParquetStream(files, opened, count)


class _Columns(NamedTuple):
    """Columns of the images, labels and ids."""

    image: str
    label: str | None
    ident: str | None


def named_rows(
    files: Sequence[Path], start: int, stop: int, *, images: bool = True
) -> Iterator[tuple[str, bytes | None]]:
    """Yield (id, encoded image) of the rows start ... stop - 1, counted over all files in order.

    Other row groups are not read, and these a few rows at a time; without `images`, only the ids are read.
    """
    image, _, ident = _find_columns(files[0])
    yield from _cells(files, start, stop, ident, image if images else None, {image})


def _labelled_rows(files: Sequence[Path], start: int, stop: int) -> Iterator[tuple[str, Any]]:
    """Yield (id, label) of these rows; the label is None without a label column."""
    image, label, ident = _find_columns(files[0])
    yield from _cells(files, start, stop, ident, label, {image})


def _cells(
    files: Sequence[Path], start: int, stop: int, ident: str | None, column: str | None, required: set[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the id of each row and its value in a column, or None without a column."""
    columns = [name for name in (column, ident) if name is not None]
    first = 0
    for file in files:
        source = _open(file)
        absent = {*required, *columns} - {*_columns(source, file)}
        if absent:
            raise EigenmapError(f"{file} has no column '{absent.pop()}', which {files[0]} has")
        in_file = 0
        for group in range(source.num_row_groups):
            rows = source.metadata.row_group(group).num_rows
            low, high = max(start - first, 0), min(stop - first, rows)
            if low < high:
                for row, (name, value) in enumerate(_group_cells(source, file, group, ident, column)):
                    if low <= row < high:
                        yield name if name is not None else f"{file.name}/{in_file + row}", value
            first, in_file = first + rows, in_file + rows


def _group_cells(
    source: Any, file: Path, group: int, ident: str | None, column: str | None
) -> Iterator[tuple[str | None, Any]]:
    """Yield the id (None without an id column) and the value (None without a column) of each row of a group."""
    columns = [name for name in (column, ident) if name is not None]
    rows = source.metadata.row_group(group).num_rows
    if not columns:
        yield from ((None, None) for _ in range(rows))
        return
    found = 0
    for batch in batches(source, file, _ROWS_AT_A_TIME, row_groups=[group], columns=columns):
        with readable(file):
            names = [str(name) for name in batch.column(ident).to_pylist()] if ident else [None] * len(batch)
            values = _field(batch, column).to_pylist() if column else [None] * len(batch)
        found += len(batch)
        yield from zip(names, values, strict=True)
    _require_rows(file, rows, found)


def _field(batch: Any, column: str) -> Any:
    """Return a column, or a field of a struct column such as `image.bytes`."""
    name, *parts = column.split(".")
    values = batch.column(name)
    for part in parts:
        values = values.field(part)
    return values


def _find_columns(file: Path) -> _Columns:
    columns = _columns(_open(file), file)
    image = next((name for name in IMAGE_COLUMNS if "binary" in columns.get(name, "")), None)
    if image is None:
        wanted = ", ".join(name for name in IMAGE_COLUMNS if "." not in name)
        there = ", ".join(f"{name} of type {kind}" if name in IMAGE_COLUMNS else name for name, kind in columns.items())
        raise EigenmapError(f"{file} has no column of image bytes: {wanted} (it has: {there})")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    return _Columns(image, label, next((name for name in ID_COLUMNS if name in columns), None))


def _open(file: Path) -> Any:
    parquet = parquet_module()
    require_files([file], [str(file)])
    with readable(file):
        source = parquet.ParquetFile(file)
        groups = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
        rows = source.metadata.num_rows
        if rows != sum(groups) or not all(0 <= count <= rows for count in groups):
            raise ValueError("the rows of its row groups do not add up to the total in its footer")
        if rows > _MOST_ROWS_PER_BYTE * file.stat().st_size:
            raise ValueError(f"its footer claims {rows:,} rows, more than a file of its size can hold")
        return source


def _require_rows(file: Path, stated: int, found: int) -> None:
    """Refuse a file whose rows differ from its footer: names and images would not match."""
    if stated != found:
        raise EigenmapError(f"{file} is damaged: it should have {stated:,} rows, but has {found:,}")


def _columns(source: Any, file: Path) -> dict[str, str]:
    """Return names and types of the columns; a struct ``image`` of bytes and path counts as image.bytes, image.path."""
    columns: dict[str, str] = {}
    with readable(file):
        schema = list(source.schema_arrow)
    for column in schema:
        inner = [column.type.field(i) for i in range(column.type.num_fields)] if _is_struct(column) else []
        columns |= {f"{column.name}.{part.name}": str(part.type) for part in inner} or {column.name: str(column.type)}
    return columns


def _is_struct(column: Any) -> bool:
    return str(column.type).startswith("struct")


def _classes(label: Any) -> list[str]:
    """Return the classes of a row, in order."""
    return [str(value) for value in sorted(_known(label))]


def _known(label: Any) -> set[Any]:
    """Return the classes of a row, whole numbers or texts; missing, negative and empty ones mean "unlabelled"."""
    values = map(_plain, label if isinstance(label, list) else [label])
    return {value for value in values if value is not None}


def _plain(value: Any) -> Any:
    """Return one class; None for a missing, negative or empty one."""
    if isinstance(value, list | dict):
        raise EigenmapError(f"a label in a Parquet file must be a number, a text or a list of these, not {value!r:.60}")
    if isinstance(value, float):  # as which whole numbers with gaps may be stored
        value = int(value) if value.is_integer() else None if math.isnan(value) else value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    missing = value is None or value == "" or (isinstance(value, int | float) and value < 0)
    return None if missing else value


def _labels(rows: Sequence[Any]) -> Labels:
    """Return the labels of all rows; integer classes are sorted by value."""
    labels = Labels.from_names([_classes(row) for row in rows])
    values = {value for row in rows for value in _known(row)}
    if not all(isinstance(value, int) for value in values):
        return labels
    return labels.in_classes([str(value) for value in sorted(values)])
