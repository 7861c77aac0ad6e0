"""Items to index: codes of images, of vectors, or stored codes. One function reads all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from eigenmap.cli.console import note, progress_bar
from eigenmap.cli.encoding import given_images
from eigenmap.cli.vector_codes import encode_vectors
from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.data.vectors.fields import Described
    from eigenmap.embedding.blocks import Block, Encoding
    from eigenmap.embedding.stored import StoredCodes
    from eigenmap.model import Codes, Eigenmap
    from eigenmap.search.backend import Metadata


class Items(NamedTuple):
    """A batch of items: names, codes, labels where known, and thumbnails if requested."""

    ids: list[str]
    codes: Codes
    metadata: list[Metadata]
    pictures: list[bytes]


@dataclass
class ImageItems:
    """Images of a source, encoded as they are read, in constant memory.

    Attributes:
        skipped: (name, reason) of the images that could not be read so far.
        count: number of images encoded so far.
        several_labels: whether an image has more than one label.

    """

    model: Eigenmap
    source: Path
    how: Encoding
    pictures: bool
    quiet: bool
    noun = "image"
    skipped: list[tuple[str, str]] = field(default_factory=list)
    count: int = 0
    several_labels: bool = False

    def __iter__(self) -> Iterator[Items]:
        from eigenmap.data.images.rows import nothing_readable, strict_error
        from eigenmap.data.images.stream import open_stream
        from eigenmap.embedding.blocks import encode_blocks
        from eigenmap.embedding.job import SHARD_SIZE

        with TemporaryDirectory() as folder, progress_bar("encoding", self.quiet) as tick:
            # With a listing, images added or removed meanwhile do not matter.
            stream = open_stream(given_images(self.source), Path(folder) / "names")
            survey = stream.survey()
            if self.how.strict and survey.skipped:
                raise strict_error(*survey.skipped[0])
            self.skipped += survey.skipped
            done = 0
            for shard in stream.shards(SHARD_SIZE):
                labels = iter(shard.rows.labels() if survey.labelled else [[]] * len(shard.rows))
                for block in encode_blocks(self.model, shard.rows, self.how):
                    done += len(block.readable)
                    yield self._items(block, [next(labels) for _ in block.readable])
                    if tick is not None:
                        tick(done, survey.count)
        if not self.count:
            raise nothing_readable(self.skipped)

    def _items(self, block: Block, labels: list[list[str]]) -> Items:
        from eigenmap.service.thumbnails import encode

        known = [label for label, readable in zip(labels, block.readable, strict=True) if readable]
        self.skipped += block.skipped
        self.count += len(block.ids)
        self.several_labels |= any(len(label) > 1 for label in known)
        metadata: list[Metadata] = [{"label": " ".join(label)} if label else {} for label in known]
        pixels = block.pixels.numpy() if self.pictures and block.pixels is not None else ()
        return Items(block.ids, block.codes, metadata, [encode(each) for each in pixels])

    def log_skipped(self) -> None:
        """Report the files that were skipped."""
        from eigenmap.fitting.images import log_left_out

        if not self.quiet:
            log_left_out(self.skipped, self.count, note)


@dataclass(frozen=True)
class CodeItems:
    """Stored codes, cut at `dim` and normalised again, in constant memory."""

    codes: StoredCodes
    dim: int
    noun = "item"
    several_labels = False

    def __iter__(self) -> Iterator[Items]:
        from eigenmap.embedding.shards import utf8_name
        from eigenmap.search.scan import comparable

        for ids, rows in self.codes:
            cut = comparable(rows[:, : self.dim], "cosine")
            yield Items([utf8_name(name) for name in ids], cut, [{} for _ in ids], [])

    def log_skipped(self) -> None:
        """Do nothing: stored codes are complete."""


@dataclass(frozen=True)
class VectorItems:
    """Vectors of a file, encoded as they are read, in constant memory; named by ids, or else by row number.

    Without a model they are their own codes, cut at `how.dim`.
    """

    model: Eigenmap | None
    described: Described
    how: Encoding
    quiet: bool
    noun = "vector"
    several_labels = False

    def __iter__(self) -> Iterator[Items]:
        done, ids, fields = 0, self.described.vectors.ids, self.described.rows()
        for codes in encode_vectors(self.model, self.described.vectors, self.how.dim, self.how.device, self.quiet):
            rows = range(done, done + len(codes))
            names = [str(row) if ids is None else ids[row] for row in rows]
            yield Items(names, codes, [*islice(fields, len(codes))], [])
            done += len(codes)

    def log_skipped(self) -> None:
        """Do nothing: no vector is skipped."""


AnyItems: TypeAlias = ImageItems | CodeItems | VectorItems


class RowOptions(NamedTuple):
    """Known fields of the rows of a file of vectors, and whether the rows are already codes."""

    ids: str | None = None
    texts: Path | None = None
    fields: list[str] | None = None
    codes: bool = False

    @property
    def given(self) -> str | None:
        """The first option that is given."""
        named = {"--ids": self.ids, "--texts": self.texts, "--fields": self.fields, "--codes": self.codes or None}
        return next((name for name, value in named.items() if value is not None), None)


def open_items(
    model: Eigenmap | None,
    source: Path,
    how: Encoding,
    *,
    pictures: bool,
    quiet: bool,
    rows: RowOptions = RowOptions(),  # noqa: B008 - it cannot change
) -> AnyItems:
    """Open vectors if there is no model or a model of vectors, else stored codes if there are any, else images."""
    from eigenmap.embedding.stored import open_codes

    if model is None or (model.kind == "vectors" and not rows.codes and not _made_by(model, source)):
        return VectorItems(model, open_rows(model, source, rows), how, quiet)
    if rows.given not in (None, "--codes"):
        what = "codes" if model.kind == "vectors" else model.kind
        raise EigenmapError(f"{rows.given} is for files of vectors, but {source} contains {what}; leave it out.")
    stored = open_codes(source)
    if rows.codes and stored is None:
        raise EigenmapError(
            f"{source} contains no codes: leave --codes out, or give a file written by `eigenmap embed`."
        )
    if model.kind == "nodes" and (stored is None or stored.fingerprint is None):
        written = source / "codes.npy"
        how_to = (
            f"index {written}" if written.is_file() else "write their codes with `eigenmap embed`, and index that file"
        )
        raise EigenmapError(f"RUN is a model of nodes: {how_to} without RUN.")
    if stored is None:
        return ImageItems(model, source, how, pictures, quiet)
    if stored.fingerprint not in (None, model.weights_sha256):
        raise EigenmapError(f"{source} contains codes of another model than RUN; embed the images again.")
    if stored.dim < how.dim:
        raise EigenmapError(f"{source} contains codes of {stored.dim} features; use --dim {stored.dim}.")
    if stored.dim > model.n_components:
        raise EigenmapError(
            f"{source} contains vectors of {stored.dim} features, but RUN makes codes of {model.n_components}; "
            "give codes made by RUN."
        )
    return CodeItems(stored, how.dim)


def open_rows(model: Eigenmap | None, source: Path, rows: RowOptions) -> Described:
    """Open a file of vectors that the model, if there is one, can take, with the names that `eigenmap embed` stored."""
    from eigenmap.data.vectors.fields import describe
    from eigenmap.data.vectors.input import VectorInput
    from eigenmap.embedding.stored import stored_names

    described = describe(source, rows.ids, rows.texts, rows.fields)
    if described.vectors.ids is None:
        names = stored_names(described.file, len(described.vectors))
        described = replace(described, vectors=replace(described.vectors, ids=names))
    length = described.vectors.n_features
    if model is not None and isinstance(model.input, VectorInput) and model.input.length != length:
        codes = "; if they are codes made by this model, add --codes" if length <= model.n_components else ""
        raise EigenmapError(
            f"This model takes vectors of {model.input.length:,} numbers, but those in {source} have {length:,}{codes}."
        )
    return described


def _made_by(model: Eigenmap, source: Path) -> bool:
    """Tell whether a file is marked as codes: by this model's fingerprint, or by an .npz array named codes."""
    from eigenmap.embedding.stored import open_codes

    suffix = source.suffix.lower()
    stored = open_codes(source) if suffix in (".npz", ".parquet") else None
    return stored is not None and (suffix == ".npz" or stored.fingerprint == model.weights_sha256)
