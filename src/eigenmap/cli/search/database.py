"""PostgreSQL databases in place of index folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from eigenmap.cli.console import note
from eigenmap.cli.search.items import open_items
from eigenmap.cli.vector_codes import Side, side_of
from eigenmap.core.addresses import is_database, require_database, require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.redaction import redacted

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
    """Open the index in a folder, or in a table of a database."""
    from eigenmap.search import CodeIndex

    if not is_database(index):
        require_path(index)
        if table is not None:
            raise EigenmapError(f"--table is for databases, but {index} is a folder; leave it out.")
        return CodeIndex.open(index)
    url, name = check_database_address(index, table)
    return CodeIndex.open(url, table=name)


class Wanted(NamedTuple):
    """Requested properties of a table."""

    precision: str
    bytes_per_item: int | None
    prefix: int | None
    force: bool

    def about(self, dim: int, fingerprint: str) -> IndexSpec:
        """Return the description of its codes."""
        from eigenmap.search.backend import Approximate, IndexSpec

        prefix = PREFIX if self.prefix is None else self.prefix
        approximate = Approximate(dim=min(prefix, dim)) if prefix else None
        return IndexSpec(dim, "cosine", fingerprint, self.precision, self.bytes_per_item, approximate)


def fill(
    run: Path, source: Path, url: str, table: str, how: Encoding, wanted: Wanted, side: Side | None, quiet: bool
) -> None:
    """Load the codes of images or vectors, or codes that `eigenmap embed` wrote, into a table."""
    from eigenmap.embedding.shards import utf8_name
    from eigenmap.model import Eigenmap, copy_model
    from eigenmap.search.backend import ItemBatch
    from eigenmap.search.postgres import load_table
    from eigenmap.search.postgres.connection import address
    from eigenmap.search.postgres.models import model_writer

    with TemporaryDirectory() as folder:
        kept = Path(folder) / "model"  # RUN may get another model while the images are encoded
        about = wanted.about(how.dim, copy_model(run, kept))
        if wanted.prefix is not None and not wanted.force:
            _require_prefix(url, table, about)
        items = open_items(side_of(Eigenmap.load(kept), side), source, how, pictures=False, quiet=quiet)
        batches = (ItemBatch([utf8_name(name) for name in part.ids], part.codes, part.metadata) for part in items)
        # Together, since codes without their model could not be searched by picture.
        made = load_table(url, table, about, batches, replace=wanted.force, also=model_writer(kept))
    if quiet:
        return
    items.log_skipped()
    replaced = " (existing items of the same names were replaced)" if made.changed else ""
    note(
        f"Table {table} at {address(url)}: {made.items:,} items of {how.dim} features; {made.added:,} new, "
        f"{made.changed:,} changed{replaced}."
    )


def _require_prefix(url: str, table: str, about: IndexSpec) -> None:
    """Refuse another approximate index than the table has: loading keeps the existing one."""
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
def open_table(url: str, table: str, run: Path | None) -> Iterator[tuple[CodeIndex, Path]]:
    """Open a table of codes with the directory of its model: RUN if given, else a copy from the database."""
    from eigenmap.search import CodeIndex
    from eigenmap.search.postgres.models import fetch_model

    with CodeIndex.open(url, table=table) as index, TemporaryDirectory() as folder:
        yield index, fetch_model(url, index.fingerprint, Path(folder) / "model") if run is None else run
