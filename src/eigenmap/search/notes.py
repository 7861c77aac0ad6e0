"""Notes: small JSON objects beside an index, each with a checksum.

    {"sources": [["camera1", "/media/camera1"]], "crc32": 1234567890}

Notes of earlier versions have no checksum and are read without one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from eigenmap.core.files import parse_json

_CHECKSUM = "crc32"


def note_bytes(note: Mapping[str, Any]) -> bytes:
    """Serialise a note.

    >>> parse_note(note_bytes({"a": 1}))
    {'a': 1}
    """
    return json.dumps({**note, _CHECKSUM: _crc32(note)}).encode("ascii")


def parse_note(content: bytes) -> dict[str, Any]:
    """Parse a note; raise ValueError if it is damaged."""
    note = parse_json(content)
    if not isinstance(note, dict):
        raise ValueError("it is not an object")
    name = _CHECKSUM if _CHECKSUM in note else next(reversed(note), None)
    content_only = {key: value for key, value in note.items() if key != name}
    right = name is not None and note[name] == _crc32(content_only)
    if right != (name == _CHECKSUM):  # a correct checksum under another name: the name is damaged
        raise ValueError("it fails its checksum")
    return content_only if right else note


def is_checked(content: bytes) -> bool:
    """Tell whether an intact note has a checksum."""
    return _CHECKSUM in parse_json(content)


def _crc32(note: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(dict(note)).encode("ascii"))
