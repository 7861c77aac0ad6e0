"""Encoded images in parquet files, read a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenmap.core.errors import EigenmapError
from eigenmap.data.images.folders import require_files
from eigenmap.data.images.labels import Labels

IMAGE_COLUMNS = ("jpeg", "jpg", "png", "image.bytes", "image", "img.bytes", "img", "bytes")
LABEL_COLUMNS = ("label", "labels")
ID_COLUMNS = ("id", "name", "file", "file_name", "filename", "path", "image_id")

_ROWS_AT_A_TIME = 64
_MOST_ROWS_PER_BYTE = 64
"""Rows without an image take hardly any room, but nobody has a file of nothing else."""


@dataclass(frozen=True)
class ParquetImages:
    """The names and labels of all rows, and a way to go through their encoded images."""

    files: list[Path]
    column: str
    ids: list[str]
    labels: Labels | None

    def read(self) -> Iterator[bytes | None]:
        """Yield the encoded image of every row, in order; None where a row has none."""
        for file in self.files:
            source, count = _open(file), 0
            for batch in _batches(source, file, columns=[self.column]):
                count += len(batch)
                if count <= source.metadata.num_rows:
                    yield from _field(batch, self.column).to_pylist()
            _require_rows(file, source.metadata.num_rows, count)


def open_parquet(files: Sequence[Path]) -> ParquetImages:
    """Find images, ids and labels in parquet files that share their columns.

    Images are encoded files in the first column of ``jpeg``, ``jpg``, ``png``, ``image``, ``img`` (the last two also as
    a struct with ``bytes`` in it) and ``bytes``; labels are integers, names, or lists of either in ``label`` or
    ``labels``; ids come from the first of ``id``, ``name``, ``file``, ... or are "<file>/<row>".
    """
    image, label, ident = _find_columns(files[0])
    ids: list[str] = []
    rows: list[Any] = []
    for file in files:
        source = _open(file)
        absent = {image, label, ident} - {None, *_columns(source, file)}
        if absent:
            raise EigenmapError(f"{file} has no column '{absent.pop()}', which {files[0]} has")
        with _readable(file):
            table = source.read(columns=[name for name in (label, ident) if name is not None])
            _require_rows(file, source.metadata.num_rows, len(table))
            ids += [str(i) for i in table[ident].to_pylist()] if ident else _numbered(file, len(table))
            rows += table[label].to_pylist() if label else []
    return ParquetImages(list(files), image, ids, _labels(rows) if label else None)


def count_rows(file: Path) -> int:
    """How many rows a file has, from its footer."""
    return int(_open(file).metadata.num_rows)


def named_rows(
    files: Sequence[Path], start: int, stop: int, *, images: bool = True
) -> Iterator[tuple[str, bytes | None]]:
    """Yield (id, encoded image) of the rows start ... stop - 1, counted over all files in order.

    Row groups outside are not read, the others a few rows at a time; without `images` only the ids are.
    """
    image, _, ident = _find_columns(files[0])
    columns = [*([image] if images else []), *([ident] if ident else [])]
    first = 0
    for file in files:
        source = _open(file)
        absent = {image, ident} - {None, *_columns(source, file)}
        if absent:
            raise EigenmapError(f"{file} has no column '{absent.pop()}', which {files[0]} has")
        in_file = 0
        for group in range(source.num_row_groups):
            rows = source.metadata.row_group(group).num_rows
            low, high = max(start - first, 0), min(stop - first, rows)
            if low < high:
                for row, name, encoded in _group_rows(source, file, group, columns, image, ident, images):
                    if low <= row < high:
                        yield name if name is not None else f"{file.name}/{in_file + row}", encoded
            first, in_file = first + rows, in_file + rows


def _group_rows(
    source: Any, file: Path, group: int, columns: list[str], image: str, ident: str | None, images: bool
) -> Iterator[tuple[int, str | None, bytes | None]]:
    """Number in the group, id (None without a column of ids) and encoded image (None if not asked for) of each row."""
    if not columns:
        yield from ((row, None, None) for row in range(source.metadata.row_group(group).num_rows))
        return
    row = 0
    for batch in _batches(source, file, row_groups=[group], columns=columns):
        with _readable(file):
            names = [str(name) for name in batch.column(ident).to_pylist()] if ident else [None] * len(batch)
        encoded = _field(batch, image).to_pylist() if images else [None] * len(batch)
        for name, content in zip(names, encoded, strict=True):
            yield row, name, content
            row += 1
    _require_rows(file, source.metadata.row_group(group).num_rows, row)


def _batches(source: Any, file: Path, **which: Any) -> Iterator[Any]:
    """Some rows at a time; the footer of a damaged file may be whole."""
    with _readable(file):
        yield from source.iter_batches(batch_size=_ROWS_AT_A_TIME, **which)


def _field(batch: Any, column: str) -> Any:
    """A column, or the part of a struct that `image.bytes` names."""
    name, *parts = column.split(".")
    values = batch.column(name)
    for part in parts:
        values = values.field(part)
    return values


def _find_columns(file: Path) -> tuple[str, str | None, str | None]:
    """Which columns hold the images, the labels and the ids."""
    columns = _columns(_open(file), file)
    image = next((name for name in IMAGE_COLUMNS if "binary" in columns.get(name, "")), None)
    if image is None:
        wanted = ", ".join(name for name in IMAGE_COLUMNS if "." not in name)
        there = ", ".join(f"{name} of type {kind}" if name in IMAGE_COLUMNS else name for name, kind in columns.items())
        raise EigenmapError(f"{file} has no column of image bytes: {wanted} (it has: {there})")
    label = next((name for name in LABEL_COLUMNS if name in columns), None)
    return image, label, next((name for name in ID_COLUMNS if name in columns), None)


def _open(file: Path) -> Any:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise EigenmapError('reading parquet files needs pyarrow: pip install "eigenmap[parquet]"') from None
    require_files([file], [str(file)])
    with _readable(file):
        source = pq.ParquetFile(file)
        groups = [source.metadata.row_group(group).num_rows for group in range(source.num_row_groups)]
        rows = source.metadata.num_rows
        if rows != sum(groups) or not all(0 <= count <= rows for count in groups):
            raise ValueError("the rows of its parts do not add up to those of the whole")
        if rows > _MOST_ROWS_PER_BYTE * file.stat().st_size:
            raise ValueError(f"it says that it has {rows:,} rows, more than a file of its size can hold")
        return source


def _require_rows(file: Path, said: int, found: int) -> None:
    """Refuse a file with more or fewer rows than its footer says: names and images would not belong together."""
    if said != found:
        raise EigenmapError(f"{file} is damaged: it says that it has {said:,} rows, but there are {found:,}")


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    try:
        yield
    except EigenmapError:
        raise
    except OSError as error:
        raise EigenmapError(f"{file} cannot be read as a parquet file: {error.strerror or error}") from None
    except Exception as error:  # a damaged file can fail anywhere inside Arrow
        raise EigenmapError(f"{file} cannot be read as a parquet file: {str(error) or 'it is damaged'}") from None


def _columns(source: Any, file: Path) -> dict[str, str]:
    """Names and types of the columns; a struct ``image`` of bytes and path counts as image.bytes, image.path."""
    columns: dict[str, str] = {}
    with _readable(file):
        schema = list(source.schema_arrow)
    for column in schema:
        inner = [column.type.field(i) for i in range(column.type.num_fields)] if _is_struct(column) else []
        columns |= {f"{column.name}.{part.name}": str(part.type) for part in inner} or {column.name: str(column.type)}
    return columns


def _is_struct(column: Any) -> bool:
    return str(column.type).startswith("struct")


def _numbered(file: Path, rows: int) -> list[str]:
    return [f"{file.name}/{row}" for row in range(rows)]


def _labels(rows: Sequence[Any]) -> Labels:
    """Integers keep their order as class names; a missing or negative label means "unlabelled"."""
    lists = [row if isinstance(row, list) else [] if row is None else [row] for row in rows]
    values = {value for row in lists for value in row}
    if not all(isinstance(value, int) for value in values):
        return Labels.from_names([[str(value) for value in row] for row in lists])
    names = [str(value) for value in sorted(values) if value >= 0]
    return Labels.from_names([[str(value) for value in row if value >= 0] for row in lists]).in_classes(names)
