"""Pictures of every format that may be uploaded, and what becomes of them in careless hands."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

import numpy as np
from PIL import Image

from tests.end_to_end.photos import picture

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")


def encoded(kind: str, height: int = 40, width: int = 30, seed: int = 0, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    pixels = picture("disc", np.random.default_rng(seed), height, width)
    Image.fromarray(pixels).convert(mode).save(out, kind)
    return out.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred bytes that says it is this large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(bytes(100_000))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")


def mutants(count: int, seed: int = 0) -> Iterator[bytes]:
    """Whole pictures with bytes changed, cut, doubled, inserted or taken from one another."""
    rng = np.random.default_rng(seed)
    sources = [encoded(kind, 20 + i, 24, i, mode) for i, kind in enumerate(FORMATS) for mode in ("RGB", "L")]
    for number in range(count):
        data = bytearray(sources[number % len(sources)])
        for _ in range(int(rng.integers(1, 5))):
            place = int(rng.integers(0, len(data))) if rng.random() < 0.6 else int(rng.integers(0, min(64, len(data))))
            what = int(rng.integers(0, 6))
            if what == 0:
                data[place] = int(rng.integers(0, 256))
            elif what == 1:
                data[place] ^= 1 << int(rng.integers(0, 8))
            elif what == 2 and len(data) > 40:
                del data[place : place + int(rng.integers(1, 40))]
            elif what == 3:
                data[place:place] = rng.bytes(int(rng.integers(1, 40)))
            elif what == 4:
                data[place : place + 4] = struct.pack(">I", int(rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 65535])))
            else:
                other = sources[int(rng.integers(0, len(sources)))]
                data[place:] = other[place:]
            if not data:
                data = bytearray(b"\xff")
        yield bytes(data)
