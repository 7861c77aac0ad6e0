"""Codes on disk, in shards.

    _embedding.json        what the codes are (model, length, number) and which images were left out
    part-00000.parquet    columns id (text) and code (a list of `dim` float32)
    part-00001.parquet    ...

or, as NumPy's files, `part-00000.npy` and `part-00000.ids.json`. The folder gets its name when it is finished; until
then it is a hidden neighbour, in which `.progress/` holds the plan and a file for every finished shard.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from eigenmap.arguments import a_path
from eigenmap.embedding.blocks import Block
from eigenmap.errors import EigenmapError
from eigenmap.files import whole_file
from eigenmap.model import Codes

DESCRIPTION = "_embedding.json"  # with an underscore, so that readers of Parquet folders pass it over
_KIND, _VERSION = "eigenmap-codes", 1


@dataclass(frozen=True)
class Plan:
    """What is to be made. Two runs with the same plan make the same shards."""

    fingerprint: str
    dim: int
    images: int
    digest: str
    shard_size: int
    files: str

    @property
    def shards(self) -> int:
        """How many shards there will be."""
        return -(-self.images // self.shard_size)


class ShardFolder:
    """A folder of shards that several processes may fill, each with shards of its own.

    A shard counts when its progress file is there, and that is written last: a process may be killed at any moment.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self._progress = path / ".progress"

    def begin(self) -> int:
        """Make the folder, or keep what is there if it is of the same plan: the number of finished shards."""
        try:
            if _read_json(self._progress / "plan.json") == asdict(self.plan):
                return sum(self.is_finished(number) for number in range(self.plan.shards))
            shutil.rmtree(self.path, ignore_errors=True)
            self._progress.mkdir(parents=True)
        except OSError as error:
            raise EigenmapError(f"{self.path} cannot be written: {error.strerror or error}") from error
        write_json(self._progress / "plan.json", asdict(self.plan))
        return 0

    def is_finished(self, number: int) -> bool:
        """Whether a shard is there, whole."""
        return self._marker(number).is_file()

    def write(self, number: int, block: Block) -> None:
        """Write a shard; it is there for good when this returns."""
        stem = _stem(self.path, number)
        if self.plan.files == "parquet":
            with whole_file(stem.with_suffix(".parquet")) as file:
                metadata = {"eigenmap_fingerprint": self.plan.fingerprint}
                parquet_module().write_table(code_table(block.ids, block.codes, metadata), file)
        else:
            with whole_file(stem.with_suffix(".npy")) as file:
                np.save(file, block.codes)
            write_json(stem.with_suffix(".ids.json"), block.ids)
        write_json(self._marker(number), {"images": len(block.ids), "skipped": block.skipped})

    def complete(self) -> Codebook:
        """Sum up the shards in _embedding.json."""
        images, skipped = 0, []
        for number in range(self.plan.shards):
            done = _read_json(self._marker(number))
            if done is None:
                raise EigenmapError(f"shard {number} of {self.path} is missing; run the same command again")
            images += done["images"]
            skipped += done["skipped"]
        about = {"kind": _KIND, "version": _VERSION, "plan": asdict(self.plan), "images": images, "skipped": skipped}
        write_json(self.path / DESCRIPTION, about)
        return Codebook.open(self.path)

    def discard_if_fruitless(self) -> None:
        """Remove the folder if no shard is finished."""
        if not any(self.is_finished(number) for number in range(self.plan.shards)):
            shutil.rmtree(self.path, ignore_errors=True)

    def publish(self, to: Path) -> None:
        """Give the finished folder its name; what was there is replaced."""
        retired = to.with_name(f".{to.name}.{uuid4().hex}.old")
        if to.exists():
            to.replace(retired)
        self.path.replace(to)
        shutil.rmtree(to / ".progress")
        shutil.rmtree(retired, ignore_errors=True)

    def _marker(self, number: int) -> Path:
        return self._progress / f"{number:05d}.json"


@dataclass(frozen=True)
class Codebook:
    """A finished folder of codes, read shard by shard.

    >>> for ids, codes in Codebook.open("codes/"): ...  # doctest: +SKIP
    """

    path: Path
    plan: Plan
    images: int
    skipped: list[tuple[str, str]]

    @classmethod
    def open(cls, path: str | Path) -> Codebook:
        """Read what `_embedding.json` says."""
        path = a_path(path, "path")
        about = _read_json(path / DESCRIPTION)
        if not isinstance(about, dict) or about.get("kind") != _KIND or about.get("version") != _VERSION:
            raise EigenmapError(f"{path} is not a finished folder of codes; `eigenmap embed` writes one")
        try:
            skipped = [(name, reason) for name, reason in about["skipped"]]
            return cls(path, Plan(**about["plan"]), about["images"], skipped)
        except (KeyError, TypeError, ValueError) as error:
            raise EigenmapError(f"{path / DESCRIPTION} is damaged; embed the images again") from error

    @staticmethod
    def is_at(path: Path) -> bool:
        """Whether a folder holds finished codes."""
        return (path / DESCRIPTION).is_file()

    def __len__(self) -> int:
        return self.images

    def __iter__(self) -> Iterator[tuple[list[str], Codes]]:
        """Yield (names, codes) of every shard."""
        for number in range(self.plan.shards):
            yield self._shard(_stem(self.path, number))

    def _shard(self, stem: Path) -> tuple[list[str], Codes]:
        try:
            if self.plan.files == "npy":
                codes = np.load(stem.with_suffix(".npy"), allow_pickle=False)
                return _read_json(stem.with_suffix(".ids.json")), codes
            table = parquet_module().read_table(stem.with_suffix(".parquet"))
        except (OSError, ValueError, EOFError) as error:  # Arrow's errors are among them
            raise EigenmapError(f"{stem.name} in {self.path} is missing or damaged: {error}") from error
        flat = table["code"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
        return table["id"].to_pylist(), flat.reshape(len(table), self.plan.dim)


def parquet_module() -> Any:
    """pyarrow.parquet, or a sentence that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise EigenmapError('parquet files need pyarrow: pip install "eigenmap[parquet]"') from None
    return pyarrow.parquet


def code_table(ids: Sequence[str | int], codes: Codes, metadata: dict[str, str]) -> Any:
    """An Arrow table of the columns id and code, a list of fixed length of float32."""
    import pyarrow as pa

    names = [utf8_name(name) if isinstance(name, str) else name for name in ids]
    id_type = pa.int64() if names and isinstance(names[0], int) else pa.string()
    flat = pa.array(np.ascontiguousarray(codes, np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, codes.shape[1])
    schema = pa.schema([("id", id_type), ("code", column.type)], metadata=metadata)
    return pa.table([pa.array(names, id_type), column], schema=schema)


def utf8_name(name: str) -> str:
    r"""The name of a file as text that any program takes: bytes that are no UTF-8 are written as \xff."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def write_json(path: Path, content: object) -> None:
    """Write a JSON file, whole or not at all; ASCII escapes keep any file name."""
    with whole_file(path) as file:
        file.write((json.dumps(content) + "\n").encode("ascii"))


def _stem(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}"


def _read_json(path: Path) -> Any:
    """The content of a JSON file, None if it is not there."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{path} is damaged or cannot be read: {error}") from error
