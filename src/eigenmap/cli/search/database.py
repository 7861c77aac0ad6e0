"""PostgreSQL databases in place of index folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from eigenmap.cli.console import note
from eigenmap.cli.search.items import RowOptions, VectorItems, open_items, open_rows
from eigenmap.cli.vector_codes import Side, side_of
from eigenmap.core.addresses import is_database, require_database, require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.redaction import redacted
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.embedding.blocks import Encoding
    from eigenmap.search import CodeIndex
    from eigenmap.search.backend import IndexSpec

PREFIX = 32
"""Default number of features in the approximate index of a table."""


def without_password(index: str) -> str:
    """Return an index location for display, without the password of a database."""
    if not is_database(index):
        return redacted(index)
    from eigenmap.search.postgres.connection import address

    return f"postgresql://{address(index)}"


def check_database_address(url: str | None, table: str | None) -> tuple[str, str]:
    """Return address and table; raise if one is missing."""
    url = require_database(url)
    if table is None:
        raise EigenmapError("Give the table of the codes: --table photos.")
    return url, table


def codes_at(index: str, table: str | None) -> CodeIndex:
    """Open the index in a folder, or in a table of a database; vectors in a file are indexed in memory."""
    from eigenmap.search import CodeIndex

    if not is_database(index):
        require_path(index)
        if table is not None:
            raise EigenmapError(f"--table is for databases, but {index} is none; leave it out.")
        return plain_index(Path(index)) if is_plain(Path(index)) else CodeIndex.open(index)
    url, name = check_database_address(index, table)
    return CodeIndex.open(url, table=name)


def is_plain(source: Path) -> bool:
    """Tell whether this is a file of vectors."""
    from eigenmap.data.vectors.vectors import is_vector_file

    return is_vector_file(source) and not source.is_dir()


def plain_index(source: Path) -> CodeIndex:
    """Index the vectors of a file in memory, with their known fields."""
    from eigenmap.embedding.blocks import Encoding
    from eigenmap.search import CodeIndex

    described = open_rows(None, source, RowOptions())
    index = CodeIndex(described.vectors.n_features)
    for part in VectorItems(None, described, Encoding(index.n_components), quiet=True):
        index.add(part.codes, part.ids, part.metadata)
    return index


class Wanted(NamedTuple):
    """Requested properties of a table."""

    precision: str
    bytes_per_item: int | None
    prefix: int | None
    force: bool

    def about(self, dim: int, fingerprint: str | None) -> IndexSpec:
        """Return the description of its codes."""
        from eigenmap.search.backend import Approximate, IndexSpec

        prefix = PREFIX if self.prefix is None else self.prefix
        approximate = Approximate(dim=min(prefix, dim)) if prefix else None
        return IndexSpec(dim, "cosine", fingerprint, self.precision, self.bytes_per_item, approximate)


def fill(
    run: Path | None,
    source: Path,
    url: str,
    table: str,
    how: Encoding,
    wanted: Wanted,
    side: Side | None,
    quiet: bool,
    rows: RowOptions = RowOptions(),  # noqa: B008 - it cannot change
) -> None:
    """Load the codes of images or vectors, or codes written by `eigenmap embed`, into a table."""
    from eigenmap.embedding.shards import utf8_name
    from eigenmap.model import Eigenmap, copy_model
    from eigenmap.search.backend import ItemBatch
    from eigenmap.search.postgres import load_table
    from eigenmap.search.postgres.connection import address
    from eigenmap.search.postgres.models import model_writer

    with TemporaryDirectory() as folder:
        kept = Path(folder) / "model"  # RUN may get another model while the images are encoded
        about = wanted.about(how.dim, None if run is None else copy_model(run, kept))
        if wanted.prefix is not None and not wanted.force:
            _require_prefix(url, table, about)
        model = None if run is None else side_of(Eigenmap.load(kept), side)
        items = open_items(model, source, how, pictures=False, quiet=quiet, rows=rows)
        batches = (ItemBatch([utf8_name(name) for name in part.ids], part.codes, part.metadata) for part in items)
        # In one transaction, since codes without their model could not be searched by picture.
        also = None if run is None else model_writer(kept)
        made = load_table(url, table, about, batches, replace=wanted.force, also=also)
    if quiet:
        return
    items.log_skipped()
    replaced = " (existing items of the same names were replaced)" if made.changed else ""
    note(
        f"Table {table} at {address(url)}: {count(made.items, 'item')} of {count(how.dim, 'feature')}; "
        f"{made.added:,} new, {made.changed:,} changed{replaced}."
    )


def _require_prefix(url: str, table: str, about: IndexSpec) -> None:
    """Refuse a different approximate index: loading keeps the existing one."""
    from eigenmap.search.postgres.connection import connect, speaking
    from eigenmap.search.postgres.tables import find_table

    with connect(url) as connection, speaking():
        there = find_table(connection, table)
    if there is not None and there.about.approximate != about.approximate:
        raise EigenmapError(
            f"the table {table} exists and keeps its approximate index; leave --prefix out, or use --force to rebuild "
            "the table"
        )


@contextmanager
def open_table(url: str, table: str, run: Path | None) -> Iterator[tuple[CodeIndex, Path | None]]:
    """Open a table of codes with the directory of its model: RUN if given, else a copy from the database.

    A table of plain vectors has no model.
    """
    from eigenmap.search import CodeIndex
    from eigenmap.search.postgres.models import fetch_model

    with CodeIndex.open(url, table=table) as index, TemporaryDirectory() as folder:
        if run is None and index.fingerprint is not None:
            run = fetch_model(url, index.fingerprint, Path(folder) / "model")
        yield index, run
