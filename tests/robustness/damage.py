"""Ways to damage a file: blindly, and knowing what its bytes mean."""

from __future__ import annotations

import ast
import io
import json
import random
import struct
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

DEEP = 100_000


class Damage(NamedTuple):
    """What was done to a file, and what it is afterwards."""

    what: str
    content: bytes


def blindly(content: bytes, rng: random.Random) -> Damage:
    """Some bits flipped, a piece zeroed, cut off, doubled, moved or made of noise."""
    data, n = bytearray(content), max(len(content), 1)
    start = rng.randrange(n)
    stop = min(n, start + rng.choice([1, 4, 16, 100, 1000]))
    kind = rng.choice(["flip", "flip", "flips", "cut", "zero", "ones", "noise", "double", "remove", "empty", "add"])
    if kind in ("flip", "flips") and data:
        for _ in range(1 if kind == "flip" else rng.randrange(2, 30)):
            data[rng.randrange(n)] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[start:]
    elif kind in ("zero", "ones", "noise"):
        byte = {"zero": lambda: 0, "ones": lambda: 255, "noise": lambda: rng.randrange(256)}[kind]
        data[start:stop] = bytes(byte() for _ in range(len(data[start:stop])))
    elif kind == "double":
        data[start:start] = data[start:stop]
    elif kind == "remove":
        del data[start:stop]
    elif kind == "empty":
        data.clear()
    else:
        data += bytes(rng.randrange(256) for _ in range(rng.randrange(1, 50)))
    return Damage(f"{kind} at {start}", bytes(data))


# JSON

_TEXTS = [
    *("null", "true", "false", "0", "-1", "1", "3", "2.5", "-0.0", "1e-320", "NaN", "Infinity", "-Infinity", "1e999"),
    *('""', '"x"', '"1"', '"\\ud800"', '"\\u0000"', '"a\\nb"', "[]", "{}", "[1]", '["x"]', '{"x": 1}', "[[1, 2], [3]]"),
    *("9" * 19, "-" + "9" * 19, "9" * 400, "9" * 5000, "[" * 900 + "]" * 900),
]
"""Values, as they are written, to put where others are."""


def in_json(content: bytes) -> Iterator[Damage]:
    """Every value replaced by every other kind of value or removed; names unknown, doubled; too deep; no JSON."""
    value = json.loads(content)
    for path in _paths(value):
        yield Damage(f"without {path}", json.dumps(_changed(value, path, _REMOVE)).encode())
        for text in _TEXTS:
            changed = json.dumps(_changed(value, path, _HERE)).replace(json.dumps(_HERE), text)
            yield Damage(f"{path} = {text[:20]}", changed.encode())
    for text in _TEXTS:
        yield Damage(f"only {text[:20]}", text.encode())
    if isinstance(value, dict):
        for name in value:
            double = f'{{{json.dumps(name)}: null, "{name}": "x", {content.decode().lstrip()[1:]}'
            yield Damage(f"{name} doubled", double.encode())
            yield Damage(f"{name} doubled after", content.rstrip()[:-1] + f', "{name}": "x"}}'.encode())
        yield Damage("an unknown name", json.dumps(value | {"unknown": 1}).encode())
    for mark in ("[", '{"a":'):
        yield Damage(f"deep {mark}", (mark * DEEP).encode())
        yield Damage(f"deep {mark}, closed", (mark * DEEP + "1" + {"[": "]"}.get(mark, "}") * DEEP).encode())
    yield Damage("UTF-16", content.decode().encode("utf-16"))
    yield Damage("no UTF-8", b"\xff\xfe\xfd" + content)
    yield Damage("latin-1", content.replace(b'"', b'"\xe9', 1))


_HERE, _REMOVE = "\x00here\x00", object()


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    """The paths to all values inside; of long lists to the first ones only."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value[:2]))
    for key, inner in items:
        yield (key,)
        yield from ((key, *path) for path in _paths(inner))


def _changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy with another value at the end of the path."""
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rest:
        copy[key] = _changed(value[key], tuple(rest), new)
    elif new is _REMOVE:
        del copy[key]
    else:
        copy[key] = new
    return copy


# NumPy's files

_SHAPES = [
    *("(-1,)", "(-3, 4)", "(3, -4)", "(1000000000000000,)", "(1000000000000000, 3)", "(0, 1000000000000000)", "()"),
    *("(0,)", "(0, 0)", "(True, 2)", "(2.0, 2)", "('a',)", "None", "[3, 2]", "3", "(3L, 2L)", "(1,) * 40"),
    *(
        f"({'1, ' * 40})",
        f"({'9' * 30}, {'9' * 30})",
        f"({2**62}, 4)",
        f"({2**63}, )",
        "(3,",
        "(3, 2))",
        f"({'9' * 4400},)",
    ),
]
_DESCRS = [
    *(
        "'<f4'",
        "'<f8'",
        "'<f2'",
        "'>f4'",
        "'<i8'",
        "'<u8'",
        "'|b1'",
        "'|S3'",
        "'<U2'",
        "'<U0'",
        "'|S0'",
        "'<c8'",
        "'<f16'",
    ),
    *(
        "'|O'",
        "'<M8[ns]'",
        "'|V4'",
        "'|V0'",
        "[('a', '<f4')]",
        "'f4,f4'",
        "'nonsense'",
        "'a3'",
        "3",
        "None",
        "''",
        "'<f3'",
    ),
    *("'<U999999999'", "'|S99999999999999'", "('<f4', (2,))", "{'names': ['a'], 'formats': ['<f4']}"),
]
_HEADERS = [
    *(
        "",
        "{",
        "}",
        "{}",
        "[]",
        "None",
        "{'descr': '<f4'",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        "\x00" * 40,
    ),
    *(
        "(" * 500,
        "[" * 3000,
        "-" * 3000,
        "'" * 5,
        '"""',
        "\\",
        "\t {",
        "{'a': 1}",
        "__import__('os').getcwd()",
        "{**{}}",
    ),
    *(
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'x': 1}",
    ),
]


def npy(header: str, data: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("utf-8") + b"\n"
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text + data


def in_npy(content: bytes) -> Iterator[Damage]:
    """Headers that say something else of the data, or make no sense."""
    length = int.from_bytes(content[8:10], "little")
    data = content[10 + length :]
    about = ast.literal_eval(content[10 : 10 + length].decode().strip())
    descr, shape = repr(about["descr"]), repr(about["shape"])
    for text in _SHAPES:
        yield Damage(f"shape {text[:30]}", npy(_header(descr, text), data))
    for text in _DESCRS:
        yield Damage(f"descr {text[:30]}", npy(_header(text, shape), data))
        yield Damage(f"descr {text[:30]}, empty", npy(_header(text, "(0,)"), b""))
    for text in _HEADERS:
        yield Damage(f"header {text[:30]}", npy(text, data))
    for version in ((0, 0), (1, 1), (2, 0), (3, 0), (9, 9), (255, 255)):
        yield Damage(f"version {version}", npy(_header(descr, shape), data, version))
    yield Damage("turned", npy(_header(descr, shape, True), data))
    yield Damage("long header", b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1) + b"{")
    for end in range(0, 12):
        yield Damage(f"cut at {end}", content[:end])
    for value in (b"\xff", b"\x00", b"\x7f"):  # NaN, zeros, huge numbers
        yield Damage(f"all {value!r}", content[: 10 + length] + value * len(data))


def _header(descr: str, shape: str, fortran: bool = False) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"


def in_npz(content: bytes) -> Iterator[Damage]:
    """Members damaged under a right checksum, left out, doubled, lied about; and the directory of the file itself."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
        kind = archive.infolist()[0].compress_type
    for name in members:
        yield Damage(f"without {name}", _zip({k: v for k, v in members.items() if k != name}, kind))
        yield Damage(f"{name} empty", _zip(members | {name: b""}, kind))
        for damage in in_npy(members[name]):
            yield Damage(f"{name}: {damage.what}", _zip(members | {name: damage.content}, kind))
    yield Damage("nothing inside", _zip({}, kind))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield Damage(f"method {method}", _zip(members, method))
    yield from _in_zip(content)


def _in_zip(content: bytes) -> Iterator[Damage]:
    """Fields of the local headers and of the central directory."""
    for signature, flags, method, sizes in (
        (b"PK\x03\x04", 6, 8, (14, 18, 22)),
        (b"PK\x01\x02", 8, 10, (16, 20, 24, 42)),
    ):
        start = content.find(signature)
        for offset, values in [
            (flags, (1, 0x40, 0x800, 0xFFFF)),
            (method, (1, 8, 9, 12, 14, 93, 99, 0xFFFF)),
            (method - 4, (99, 0xFFFF)),
            *((size, (0, 1, 0xFFFFFFFF, 0x7FFFFFFF)) for size in sizes),
        ]:
            for value in values:
                data = bytearray(content)
                width = 4 if offset in sizes else 2
                data[start + offset : start + offset + width] = value.to_bytes(width, "little")
                yield Damage(f"{signature!r} + {offset} = {value}", bytes(data))


def _zip(members: dict[str, bytes], kind: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


# Parquet


def in_parquet(content: bytes) -> Iterator[Damage]:
    """Numbers of the footer changed, one or several: rows of the file and of its groups among them."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    rows = [place + 1 for place in range(length - 1) if footer[place] == 0x16]  # a 64-bit number follows
    for number in (0, 1, 5, 1000, 10**6, 10**15, 2**62, -1):
        for place in rows:
            yield Damage(f"{number} at {place}", _with_footer(content, _replaced(footer, [place], number)))
        same = [place for place in rows if footer[place] == footer[rows[0]]]
        yield Damage(f"{number} at {same}", _with_footer(content, _replaced(footer, same, number)))
    for size in (0, 1, length - 1, length + 1, 2**31, 2**32 - 1):
        yield Damage(f"footer of {size}", content[:-8] + size.to_bytes(4, "little") + content[-4:])


def _replaced(footer: bytes, places: list[int], number: int) -> bytes:
    for place in sorted(places, reverse=True):
        end = place
        while footer[end] & 0x80:
            end += 1
        footer = footer[:place] + _varint(number) + footer[end + 1 :]
    return footer


def _with_footer(content: bytes, footer: bytes) -> bytes:
    length = int.from_bytes(content[-8:-4], "little")
    return content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + content[-4:]


def _varint(number: int) -> bytes:
    """A number as Thrift's compact protocol writes it."""
    number = 2 * number if number >= 0 else -2 * number - 1
    digits = b""
    while number > 127:
        digits += bytes([number & 127 | 128])
        number >>= 7
    return digits + bytes([number])
