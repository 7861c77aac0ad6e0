"""Change log of an index on disk: one line per change, each describing the complete state after it.

    {"id_type": "str", "sizes": {...}, "crc32": {...}, "fixed": {...}} 17 0c1d2e3f 8a9b0c1d

After the state come the number of the line, the checksum of the previous line, and the checksum of this line, so that a
lost, repeated or moved line is detected. The first line of a file has no predecessor (`--------`); a long log is
rewritten as one such line. Lines of format version 2 have neither a number nor the previous checksum.

Only the end of the file, after the last newline, can be torn, by a process killed while writing. A complete line with a
wrong checksum is damage.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from eigenmap.core.files import parse_json

ID_TYPES: dict[str, type] = {"str": str, "int": int}

_LINE = re.compile(rb"(\{.*\})(?: (\d{1,18}) ([0-9a-f]{8}|-{8}))? ([0-9a-f]{8})")
_NONE = b"--------"
_NAME = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9]+)+")


class DamagedLogError(ValueError):
    """Raised for a damaged log; the message does not name the file."""


@dataclass(frozen=True)
class IndexState:
    """State of an index: sizes and checksums of its files."""

    id_type: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    crc32: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    """Checksums of files that are written once."""

    @classmethod
    def from_json(cls, entries: Any) -> IndexState:
        """Parse the content of a line; raise ValueError if it is malformed."""
        try:
            state = cls(**entries)
        except TypeError as error:
            raise ValueError("it does not describe an index") from error
        if not state._well_formed():
            raise ValueError("it does not describe an index")
        return state

    def _well_formed(self) -> bool:
        tables = (self.sizes, self.crc32, self.fixed)
        if not all(isinstance(table, dict) for table in tables) or self.sizes.keys() != self.crc32.keys():
            return False
        values = [(name, value) for table in tables for name, value in table.items()]
        right = all(_NAME.fullmatch(name) and type(value) is int and value >= 0 for name, value in values)
        return right and (self.id_type in ID_TYPES if self.sizes else self.id_type is None)

    @property
    def rows(self) -> int:
        """Number of stored rows, including deleted ones."""
        return self.sizes.get("ids.ends", 0) // 8


@dataclass(frozen=True)
class Log:
    """A log read to its end."""

    state: IndexState = IndexState()
    number: int = 0
    check: bytes = _NONE
    """Checksum of the last line."""
    lines: int = 0
    end: int = 0
    """Position of the next line; anything beyond is torn."""
    chained: bool = True
    """False for a log of format version 2."""
    unfinished: bool = False
    """True if the last line is complete except for its newline."""

    def next(self, state: IndexState) -> tuple[bytes, Log]:
        """Return the line that a change appends, and the log with it."""
        line = log_line(state, self.number + 1, self.check)
        text = b"\n" + line if self.unfinished else line
        return text, Log(state, self.number + 1, line[-9:-1], self.lines + 1, self.end + len(text))

    def compacted(self) -> tuple[bytes, Log]:
        """Return the content of an equivalent log of one line, and that log."""
        line = log_line(self.state, self.number, _NONE)
        return line, replace(self, check=line[-9:-1], lines=1, end=len(line), chained=True, unfinished=False)


def log_line(state: IndexState, number: int, before: bytes) -> bytes:
    """Format one line."""
    text = b"%s %d %s" % (json.dumps(asdict(state)).encode("ascii"), number, before)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def read_log(data: bytes) -> Log:
    """Parse a log up to its last line; raise `DamagedLogError` for damage that a kill does not explain."""
    *lines, tail = data.split(b"\n")
    log, start, last = Log(), 0, b""
    for number, line in enumerate(lines, start=1):
        log, last = _followed(log, line, number), line
        start += len(line) + 1
        log = replace(log, end=start)
    if tail:
        log, last = _with_tail(log, tail, last)
    if not log.lines:
        raise DamagedLogError("it has no complete line")
    match = _LINE.fullmatch(last)
    assert match is not None
    try:
        return replace(log, state=IndexState.from_json(parse_json(match[1])))
    except ValueError as error:
        raise DamagedLogError(f"line {log.lines} is malformed") from error


def _followed(log: Log, line: bytes, number: int) -> Log:
    """Return the log with one more line."""
    match = _checked(line)
    if match is None:
        raise DamagedLogError(f"line {number} fails its checksum")
    chained = match[2] is not None
    if log.lines and chained != log.chained:
        raise DamagedLogError(f"line {number} has a different format version from earlier lines")
    if not chained:
        return replace(log, lines=number, chained=False, check=match[4])
    count = int(match[2])
    if match[3] != log.check or (log.lines and count != log.number + 1):
        raise DamagedLogError(f"line {number} does not follow the previous one: a line was lost, repeated or moved")
    return replace(log, number=count, lines=number, check=match[4])


def _with_tail(log: Log, tail: bytes, last: bytes) -> tuple[Log, bytes]:
    """Return the log including any complete line after the last newline; a torn one is ignored."""
    if _checked(tail) is not None:
        complete = _followed(log, tail, log.lines + 1)
        return replace(complete, end=log.end + len(tail), unfinished=True), tail
    if _checked(tail[:-1]) is not None:  # a kill leaves nothing but a newline after a line
        raise DamagedLogError(f"line {log.lines + 1} is not terminated correctly")
    return log, last


def _checked(line: bytes) -> re.Match[bytes] | None:
    """Return the parts of a line with a correct checksum, or None."""
    match = _LINE.fullmatch(line)
    if match is None or match[4] != b"%08x" % zlib.crc32(line[:-9]):
        return None
    return match
