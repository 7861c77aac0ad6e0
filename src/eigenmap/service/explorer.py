"""Explorer state: an index, the model that made its codes, and results computed from them at the start."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from eigenmap.core.errors import EigenmapError, ReplacedError, UnknownIdError
from eigenmap.data.vectors.input import VectorInput
from eigenmap.search.backend import Floats, Id, ItemBatch, KeepsNotes, Metadata
from eigenmap.search.codecs import Codec
from eigenmap.search.index import CodeIndex
from eigenmap.search.parts import model_in
from eigenmap.service import quality
from eigenmap.service.originals import NotedOriginals
from eigenmap.service.overview import Overview, sample
from eigenmap.service.thumbnails import FolderPictures, Pictures, StoredPictures
from eigenmap.service.uploads import Refused, decode_upload

if TYPE_CHECKING:
    from eigenmap.model import Eigenmap

T = TypeVar("T")

Features = Literal["ordered", "random"]

TEXT_FIELDS = ("title", "text")
"""Metadata that the page shows instead of a picture."""
_LOOKED_AT = 100


class Item(NamedTuple):
    """An item with its similarity to a query or its value of a feature."""

    id: Id
    metadata: Metadata
    score: float

    def as_json(self) -> dict[str, Any]:
        """Return the item in the form used by the API."""
        return {"id": self.id, "key": key_of(self.id), "score": self.score, "metadata": dict(self.metadata)}


@dataclass(frozen=True)
class SearchParameters:
    """Settings that queries must share to be answered by one scan."""

    features: Features
    dim: int
    top: int
    where: str = "{}"
    """The filter as JSON, so that it can be compared and hashed."""


Query = Id | tuple[float, ...]
"""Id of an item, or a code."""


def key_of(name: Id) -> str:
    """Encode an id for use in a URL, whatever bytes the file name contains.

    >>> key_of("a b.jpg"), id_of("YSBiLmpwZw")
    ('YSBiLmpwZw', 'a b.jpg')
    """
    return base64.urlsafe_b64encode(str(name).encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=")


def id_of(key: str) -> str:
    """Decode a key: the inverse of `key_of`, as text."""
    try:
        data = base64.b64decode(key + "=" * (-len(key) % 4), altchars=b"-_", validate=True)
        return data.decode("utf-8", "surrogatepass")
    except (binascii.Error, ValueError):
        raise Refused(404, "no item has this key") from None


class Explorer:
    """An index to explore.

    explorer = Explorer.open(Path("photos.index"))
    explorer.answer(SearchParameters("ordered", dim=16, top=10), ["holiday/beach.jpg"])

    Once another index has replaced this one on disk, everything that needs the index raises `ReplacedError`, and
    `again` opens the new one.
    """

    def __init__(
        self,
        index: CodeIndex,
        model: Eigenmap | None,
        name: str,
        small: Pictures,
        large: Pictures | None = None,
        images: Path | None = None,
    ) -> None:
        if not len(index):
            raise EigenmapError("the index is empty; add codes before serving it")
        self.index = index
        self.model = model
        self.name = name
        self.small = small
        """Thumbnails, which are quick to read and are sent with items."""
        self._large = large
        self._originals = None if images is None else NotedOriginals(index.backend, images)
        self._open: Callable[[], Explorer] | None = None
        drawn = sample(index)
        self.overview = Overview(drawn)
        self._whole_ids = isinstance(drawn.ids[0], int)
        self._order = np.random.default_rng(0).permutation(index.n_components)
        self._shuffled: CodeIndex | None = None
        self._drawn: ItemBatch | None = drawn
        self.quality: quality.Quality | None = None
        self.quality_known = False

    @classmethod
    def open(cls, path: Path, images: Path | None = None) -> Explorer:
        """Open an index written by `eigenmap index`; larger pictures come from `images`, the indexed folder."""
        from eigenmap.model import Eigenmap

        index = CodeIndex.open(path)
        model = None
        if (folder := model_in(path)) is not None:
            model = Eigenmap.load(folder)
            index.require_model(str(model.weights_sha256))  # of the loaded weights; the folder may have changed since
        large = None if images is None else FolderPictures(images)
        made = cls(index, model, path.resolve().name, StoredPictures(path), large, images)
        made._open = partial(cls.open, path, images)
        return made

    def again(self) -> Explorer | None:
        """Return an explorer of the index that replaced this one, or None if it is still the same."""
        try:
            len(self.index)
        except ReplacedError:
            if self._open is None:
                raise
            return self._open()
        return None

    @property
    def has_large(self) -> bool:
        """True if pictures larger than the thumbnails are available."""
        return self._large is not None

    @property
    def model_name(self) -> str | None:
        """First characters of the fingerprint of the model that made the codes."""
        return None if self.index.fingerprint is None else self.index.fingerprint[:16]

    def prepare(self) -> None:
        """Compute what is not needed at the start: random features and quality by length."""
        drawn, self._drawn = self._drawn, None
        if drawn is None:
            return
        try:
            shuffled = CodeIndex(self.index.n_components, self.index.metric)
            shuffled.add(drawn.codes[:, self._order], drawn.ids, drawn.metadata)
            self._shuffled = shuffled
            notes = self.index.backend
            several = isinstance(notes, KeepsNotes) and notes.read_note(quality.SEVERAL) is not None
            self.quality = quality.measure_quality(drawn, several)
        finally:
            self.quality_known = True  # otherwise the page would ask for it forever

    def item_id(self, text: str) -> Id:
        """Convert the text of an id to the id, which may be an integer."""
        if not self._whole_ids:
            return text
        try:
            return int(text)
        except ValueError:
            raise Refused(404, "no item has this id; ids in this index are whole numbers") from None

    def item(self, name: Id) -> Item:
        """Return an item and its metadata, with the score of a perfect match."""
        try:
            (known,) = self.index.metadata([name])
        except UnknownIdError:
            raise _absent() from None
        return Item(name, known, 1.0)

    def picture(self, name: Id) -> bytes | None:
        """Return the picture of an item that is in the index now, or None."""
        item, file = self.item(name), self._file_of(name)
        large = None if self._large is None or file is None else self._large.read(file)
        return self.small.read(str(item.id)) if large is None else large

    def _file_of(self, name: Id) -> str | None:
        """Return the file in the folder that an item was made from, or None."""
        if self._originals is None:
            return str(name)
        while True:
            # Checked before and after: if the index is replaced in between, item and note belong to different indexes.
            before = self.item(name)
            file = self._originals.file_of(before.id, before.metadata)
            if self.item(name) == before:
                return file

    def living(self, names: Iterable[Id]) -> set[Id]:
        """Return those of `names` that are in the index now."""
        return set(_present(self.index.metadata, names))

    def answer(self, ask: SearchParameters, queries: Sequence[Query]) -> list[list[Item] | Exception]:
        """Return the best items for each query, without the query itself if it is an item."""
        try:
            return self._answered(ask, queries)
        except ReplacedError:
            raise
        except EigenmapError as error:
            if len(queries) == 1:
                return [error]
        # A query that the index refuses, such as a code too large for it, must not fail those of other clients.
        return [answer for query in queries for answer in self.answer(ask, [query])]

    def _answered(self, ask: SearchParameters, queries: Sequence[Query]) -> list[list[Item] | Exception]:
        """Answer queries by one scan, which fails as a whole."""
        index = self.index
        if ask.features == "random":
            if self._shuffled is None:
                return [Refused(503, "random features are not ready yet; try again in a second")] * len(queries)
            index = self._shuffled
        # Together, since every lookup in an index on disk reads the hashes of all ids.
        stored: dict[Id, Floats] = _present(
            self.index.codes, [query for query in queries if not isinstance(query, tuple)]
        )
        codes: list[Floats | Exception] = [
            self._given(query) if isinstance(query, tuple) else stored.get(query, _absent()) for query in queries
        ]
        known = [code for code in codes if not isinstance(code, Exception)]
        if not known:
            return [code for code in codes if isinstance(code, Exception)]
        rows = np.stack(known)
        if ask.features == "random":
            rows = rows[:, self._order]
        # One more than requested, since the item itself is left out.
        found = index.search(rows, ask.top + 1, ask.dim, where=json.loads(ask.where))
        described = _present(index.metadata, (name for line in found.ids for name in line))
        results = iter(zip(found.ids, found.scores.tolist(), strict=True))
        answers: list[list[Item] | Exception] = []
        for query, code in zip(queries, codes, strict=True):
            if isinstance(code, Exception):
                answers.append(code)
                continue
            ids, scores = next(results)
            pairs = [(name, score) for name, score in zip(ids, scores, strict=True) if name != query]
            # An item may be deleted between the search and the lookup of its metadata.
            items = [Item(name, described[name], score) for name, score in pairs if name in described]
            answers.append(items[: ask.top])
        return answers

    def _given(self, query: tuple[float, ...]) -> Floats | Exception:
        """Return a code to search by, or why it is none."""
        code = np.asarray(query, np.float64)
        if code.shape != (self.index.n_components,):
            return Refused(422, f"vector must have {self.index.n_components} numbers, not {len(query)}")
        # Normalised before the conversion to float32, which would turn large numbers into infinity.
        largest = float(np.abs(code).max())
        if self.index.metric == "cosine":
            return np.asarray(code / (largest or 1.0), np.float32)
        if largest > float(np.finfo(np.float32).max):
            return Refused(422, "vector contains a number too large for float32")
        return np.asarray(code, np.float32)

    def encode(self, body: bytes, most_pixels: int) -> tuple[float, ...]:
        """Return the code of an uploaded picture."""
        if self.model is None:
            raise Refused(501, "this index contains no model, so it cannot be searched by picture")
        import torch

        if self.model.kind != "images":
            raise Refused(
                501, f"the model of this index takes {self.model.kind}, so it cannot be searched by a picture"
            )
        image = self.model.image
        pixels = decode_upload(body, image.size, image.channels, most_pixels)
        code = self.model.encode(torch.from_numpy(np.ascontiguousarray(pixels[None])), self.index.n_components)[0]
        return tuple(code.tolist())

    @property
    def takes_pictures(self) -> bool:
        """True if an uploaded picture can be encoded."""
        return self.model is not None and self.model.kind == "images"

    @property
    def vector_length(self) -> int | None:
        """Length of the vectors that can be searched by; None if the index is not made from vectors.

        A model of two spaces takes vectors of either space; this is the length of the first.
        """
        if self.model is None:
            return self.index.n_components if self.index.fingerprint is None else None
        return self.model.input.length if isinstance(self.model.input, VectorInput) else None

    def encode_vector(self, vector: Sequence[float]) -> tuple[float, ...]:
        """Return the code of a vector like those that were indexed; without a model it is the vector itself."""
        if self.vector_length is None:
            raise Refused(422, "this index is not made from vectors, so it cannot be searched by one")
        if self.model is None:
            if len(vector) != self.vector_length:
                raise Refused(422, f"input must have {self.vector_length} numbers, not {len(vector)}")
            return tuple(vector)
        sides = [side for side in (self.model, self.model.right) if side is not None]
        lengths = [side.input.length for side in sides if isinstance(side.input, VectorInput)]
        if len(vector) not in lengths:
            raise Refused(422, f"input must have {' or '.join(map(str, lengths))} numbers, not {len(vector)}")
        side = sides[lengths.index(len(vector))]
        code = side.encode(np.asarray([vector], np.float64), self.index.n_components)[0]
        return tuple(code.tolist())

    @property
    def shows_texts(self) -> bool:
        """True if items have a title or text to show but no pictures."""
        first = self.overview.ids[0]
        described = any(known.get(field) for known in self.overview.metadata[:_LOOKED_AT] for field in TEXT_FIELDS)
        return described and not self.has_large and self.small.read(str(first)) is None

    def bytes_per_item(self, dim: int) -> int:
        """Return the number of bytes that a search at this length reads per item."""
        codec: Codec | None = getattr(self.index.backend, "codec", None)
        if codec is None:
            return 4 * dim
        total = 0
        for block, (first, end) in enumerate(codec.blocks):
            if first < dim:
                total += -(-codec.width(block) * (min(end, dim) - first) // (end - first))
        return total

    def eigenvalues(self) -> list[float] | None:
        """Return the eigenvalues of the stored features, or None without a model."""
        return None if self.model is None else self.model.eigenvalues_[: self.index.n_components].tolist()

    def fields(self, most_values: int = 50) -> dict[str, list[Any]]:
        """Return the metadata fields, with their values if there are few."""
        values: dict[str, set[Any]] = {}
        for item in self.overview.metadata:
            for name, value in item.items():
                seen = values.setdefault(name, set())
                if len(seen) <= most_values:
                    seen.add(value)
        return {name: sorted(seen, key=str) if len(seen) <= most_values else [] for name, seen in values.items()}


def _absent() -> Refused:
    return Refused(404, "no item has this id")


def _present(read: Callable[[list[Id]], Iterable[T]], names: Iterable[Id]) -> dict[Id, T]:
    """Return what `read` returns for those items that are in the index now."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    try:
        return dict(zip(wanted, read(wanted), strict=True))
    except UnknownIdError:
        middle = len(wanted) // 2  # at most a few items are missing, so bisection finds them quickly
        return {**_present(read, wanted[:middle]), **_present(read, wanted[middle:])} if middle else {}
