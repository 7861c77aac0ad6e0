"""Safe reading of NumPy's .npy and .npz files.

    rows = open_npy(Path("x.npy"))                  # a memory map
    with open_npz(Path("graph.npz")) as arrays:
        arrays.names, arrays["x"]

Nothing is unpickled, and no memory is allocated before a header has been compared with the number of bytes that follow
it. Any problem with a file becomes a one-sentence error that names it.
"""

from __future__ import annotations

import ast
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.format import MAGIC_PREFIX

from eigenmap.core.errors import EigenmapError

Array: TypeAlias = npt.NDArray[Any]

_LONGEST_HEADER = 10_000  # as in NumPy: parsing a longer one could exhaust the stack
_MOST_AXES = 32
_DESCR = re.compile(r"[<>|=]?(?:[biufcSU][0-9]{1,9}|\?)")
_AT_A_TIME = 1 << 20
_DEFLATE_AT_BEST = 1032
"""Maximum expansion factor of deflate."""


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def open_npy(path: Path, mode: Literal["r", "c"] = "r") -> Array:
    """Map the array of an .npy file, read-only or ("c") with changes that never reach the file."""
    with _readable(path):
        with path.open("rb") as stream:
            header = _read_header(stream)
            offset = stream.tell()
            left = stream.seek(0, 2) - offset
        _require(header, left)
        order: Literal["F", "C"] = "F" if header.fortran_order else "C"
        if header.nbytes == 0:  # an empty file cannot be mapped
            return np.empty(header.shape, header.dtype, order)
        return _text_checked(np.memmap(path, header.dtype, mode, offset, header.shape, order))


def read_npy(stream: IO[bytes]) -> Array:
    """Read the array of an open .npy file; raise ValueError, without the file's name, if there is none."""
    header = _read_header(stream)
    offset = stream.tell()
    _require(header, stream.seek(0, 2) - offset)
    stream.seek(offset)
    return _read_array(stream, header)


class Npz:
    """Arrays of an open .npz file; made by `open_npz`."""

    def __init__(self, archive: zipfile.ZipFile, path: Path) -> None:
        self._archive, self.path = archive, path
        self._members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in file order."""
        return list(self._members)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array without reading it."""
        with _readable(self.path), self._archive.open(self._member(name)) as stream:
            return _read_header(stream).shape

    def __getitem__(self, name: str) -> Array:
        info = self._member(name)
        with _readable(self.path), self._archive.open(info) as stream:
            header = _read_header(stream)
            _require(header, info.file_size - stream.tell())
            return _read_array(stream, header)

    def _member(self, name: str) -> zipfile.ZipInfo:
        if name not in self._members:
            raise EigenmapError(f"{self.path} has no array {name} (it has: {', '.join(self.names) or 'nothing'})")
        info = self._members[name]
        with _readable(self.path):
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"its array {name} is compressed in a way that NumPy does not support")
            if info.file_size > _DEFLATE_AT_BEST * self.path.stat().st_size:
                raise ValueError(f"its array {name} claims to be larger than the file can hold")
        return info


@contextmanager
def open_npz(path: Path) -> Iterator[Npz]:
    """Open an .npz file."""
    with _readable(path):
        if not zipfile.is_zipfile(path):
            raise ValueError("it is not one, or its end is missing")
        archive = zipfile.ZipFile(path)
    with archive:
        yield Npz(archive, path)


def _read_array(stream: IO[bytes], header: _Header) -> Array:
    """Read the array after its header from a stream that cannot be mapped."""
    order: Literal["F", "C"] = "F" if header.fortran_order else "C"
    content = np.empty(header.nbytes, np.uint8)
    filled = 0
    while filled < len(content):
        part = stream.read(min(len(content) - filled, _AT_A_TIME))
        if not part:
            raise ValueError("one of its arrays ends too early")
        content[filled : filled + len(part)] = np.frombuffer(part, np.uint8)
        filled += len(part)
    if stream.read(1):  # up to the end, where the checksum is verified
        raise ValueError("one of its arrays is followed by other data")
    if not len(content):
        return np.empty(header.shape, header.dtype, order)
    return _text_checked(content.view(header.dtype)).reshape(header.shape, order=order)


def _text_checked(array: Array) -> Array:
    """Return the array if its text contains only valid characters; NumPy fails later on others."""
    if array.dtype.kind == "U":
        codes = np.ravel(array, order="K").view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if codes.max() > 0x10FFFF:
            raise ValueError("its text contains invalid characters")
    return array


def _read_header(stream: IO[bytes]) -> _Header:
    """Parse the header of an .npy file; raise ValueError if it is malformed."""
    magic = stream.read(len(MAGIC_PREFIX) + 2)
    if magic[:-2] != MAGIC_PREFIX or len(magic) < len(MAGIC_PREFIX) + 2:
        raise ValueError("it does not begin like one")
    version = tuple(magic[-2:])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"its format version {version[0]}.{version[1]} is unknown")
    size = 2 if version == (1, 0) else 4
    length = int.from_bytes(stream.read(size), "little")
    if length > _LONGEST_HEADER:
        raise ValueError("its header is too long")
    text = stream.read(length)
    if len(text) < length:
        raise ValueError("it ends inside its header")
    about = _literal(text.decode("utf-8" if version == (3, 0) else "latin-1"))
    if not isinstance(about, dict) or set(about) != {"descr", "fortran_order", "shape"}:
        raise ValueError("its header does not describe an array")
    if not isinstance(about["fortran_order"], bool):
        raise ValueError("its header does not describe an array")
    return _Header(_shape(about["shape"]), about["fortran_order"], _dtype(about["descr"]))


def _literal(text: str) -> object:
    """Parse a Python literal; numbers may be in Python 2 form, such as 10L."""
    try:
        return ast.literal_eval(re.sub(r"(?<=[0-9])L\b", "", text).strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError("its header does not describe an array") from None


def _shape(shape: object) -> tuple[int, ...]:
    whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
    if not whole or len(shape) > _MOST_AXES:  # type: ignore[arg-type]
        raise ValueError(f"its shape {str(shape)[:60]} is invalid")
    return shape  # type: ignore[return-value]


def _dtype(descr: object) -> np.dtype[Any]:
    if descr in ("|O", "O"):
        raise ValueError("it contains pickled Python objects, which are never loaded; store numbers or text")
    if not isinstance(descr, str) or not _DESCR.fullmatch(descr):
        raise ValueError(f"it contains {str(descr)[:60]} instead of numbers or text")
    try:
        return np.dtype(descr)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"it contains {descr} instead of numbers or text") from None


def _require(header: _Header, nbytes: int) -> None:
    """Refuse an array larger than the data after its header."""
    if header.nbytes > nbytes:
        found = f"there are {max(nbytes, 0):,}"
        raise ValueError(f"an array of shape {str(header.shape)[:100]} needs {header.nbytes:,} bytes, but {found}")


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors of NumPy, zip or zlib about a damaged file into one sentence."""
    try:
        yield
    except EigenmapError:
        raise
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror or error}") from None
    except (
        *(ValueError, EOFError, KeyError, IndexError, OverflowError, UnicodeError, struct.error),
        *(zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError),
    ) as error:
        reason = str(error).rstrip(".") or "it is damaged"
        raise EigenmapError(f"{path} cannot be read as a NumPy file: {reason}") from None
