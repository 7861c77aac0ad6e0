"""PostgreSQL databases in place of index folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.vector_codes import Side, open_vectors, side_of, vector_batches
from eigenmap.core.addresses import is_database, require_database, require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.redaction import redacted

if TYPE_CHECKING:
    from eigenmap.cli.console import Tick
    from eigenmap.embedding.blocks import Encoding
    from eigenmap.embedding.shards import Codebook
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex
    from eigenmap.search.backend import Id, IndexSpec, ItemBatch, Metadata

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
    """Load the codes of images, of vectors, or of a folder that `eigenmap embed` wrote, into a table."""
    from eigenmap.embedding.shards import Codebook
    from eigenmap.fitting.images import log_left_out
    from eigenmap.model import Eigenmap, copy_model
    from eigenmap.search.postgres import load_table
    from eigenmap.search.postgres.connection import address
    from eigenmap.search.postgres.models import store_model

    skipped: list[tuple[str, str]] = []
    with TemporaryDirectory() as folder, progress_bar("loading", quiet) as tick:
        kept = Path(folder) / "model"  # RUN may get another model while the images are encoded
        fingerprint = copy_model(run, kept)
        about = wanted.about(how.dim, fingerprint)
        if wanted.prefix is not None and not wanted.force:
            _require_prefix(url, table, about)
        if Codebook.is_at(source):
            blocks = stored_codes(Codebook.open(source), fingerprint, how.dim)
        elif (model := side_of(Eigenmap.load(kept), side)).kind == "vectors":
            blocks = vector_batches(model, open_vectors(model, source), how.dim, how.device, quiet)
        else:
            blocks = _fresh_codes(model, source, how, skipped, tick)
        made = load_table(url, table, about, blocks, replace=wanted.force)
        store_model(url, kept)
    if quiet:
        return
    log_left_out(skipped, made.items, note)
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


def _fresh_codes(
    model: Eigenmap, source: Path, how: Encoding, skipped: list[tuple[str, str]], tick: Tick | None
) -> Iterator[ItemBatch]:
    """Yield codes as they are computed, in constant memory; unreadable images are added to `skipped`."""
    from eigenmap.data.images.stream import open_stream
    from eigenmap.embedding.blocks import encode_blocks
    from eigenmap.embedding.shards import utf8_name
    from eigenmap.search.backend import ItemBatch

    stream = open_stream(source)
    survey = stream.survey()
    total, done = survey.count, 0
    rows = (row for shard in stream.shards(how.batch_size) for row in shard.rows)
    for block in encode_blocks(model, rows, how):
        skipped += block.skipped
        done += len(block.ids) + len(block.skipped)
        names: list[Id] = [utf8_name(name) for name in block.ids]
        labels: list[Metadata] = [
            {"label": str(name).partition("/")[0]} if survey.class_folders else {} for name in names
        ]
        yield ItemBatch(names, block.codes, labels)
        if tick is not None:
            tick(done, total)
    if len(skipped) == total:
        name, reason = skipped[-1]
        raise EigenmapError(f"none of the {total:,} images can be read, for example {name}: {reason}")


def stored_codes(codes: Codebook, fingerprint: str | None, dim: int) -> Iterator[ItemBatch]:
    """Yield codes computed earlier, cut at `dim` and normalised again."""
    import numpy as np

    from eigenmap.embedding.shards import utf8_name
    from eigenmap.search.backend import ItemBatch

    if codes.plan.fingerprint != fingerprint:
        raise EigenmapError(f"{codes.path} contains codes of another model than RUN; embed the images again.")
    if codes.plan.dim < dim:
        raise EigenmapError(f"{codes.path} contains codes of {codes.plan.dim} features; use --dim {codes.plan.dim}.")
    for ids, rows in codes:
        cut = rows[:, :dim]
        norm = np.linalg.norm(cut, axis=1, keepdims=True)
        unit = (cut / np.where(norm == 0, 1, norm)).astype(np.float32)
        yield ItemBatch([utf8_name(name) for name in ids], unit, [{} for _ in ids])


@contextmanager
def open_table(url: str, table: str, run: Path | None) -> Iterator[tuple[CodeIndex, Path]]:
    """Open a table of codes with the directory of its model: RUN if given, else a copy from the database."""
    from eigenmap.search import CodeIndex
    from eigenmap.search.postgres.models import fetch_model

    with CodeIndex.open(url, table=table) as index, TemporaryDirectory() as folder:
        yield index, fetch_model(url, index.fingerprint, Path(folder) / "model") if run is None else run
