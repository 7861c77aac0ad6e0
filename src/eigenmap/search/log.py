"""The log of an index on disk: one line per change, each of which says everything that counts from then on.

    {"id_type": "str", "sizes": {...}, "crc32": {...}, "fixed": {...}} 17 0c1d2e3f 8a9b0c1d

The last word is the checksum of the line, the one before it that of the line before, and the number counts lines: a
line that was lost, repeated or moved is noticed. The first line of a file has no line before it (`--------`); a log
that has grown long is rewritten as one such line. Lines of format version 2 have neither number nor chain.

Only the end of the file can be torn, by a process that was killed while it wrote: what follows the last newline. A
whole line with a wrong checksum is damage.
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
    """What is wrong with a log, without the name of the file."""


@dataclass(frozen=True)
class IndexState:
    """What counts of an index: how much of each file that grows, and checksums."""

    id_type: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    crc32: Mapping[str, int] = field(default_factory=dict)
    fixed: Mapping[str, int] = field(default_factory=dict)
    """Checksums of files that are written once."""

    @classmethod
    def from_json(cls, entries: Any) -> IndexState:
        """What a line holds; ValueError where it makes no sense."""
        try:
            state = cls(**entries)
        except TypeError as error:
            raise ValueError("it describes no index") from error
        if not state._well_formed():
            raise ValueError("it describes no index")
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
        """Rows stored, also those that are deleted."""
        return self.sizes.get("ids.ends", 0) // 8


@dataclass(frozen=True)
class Log:
    """A log that was read to its end."""

    state: IndexState = IndexState()
    number: int = 0
    check: bytes = _NONE
    """Checksum of the last line."""
    lines: int = 0
    end: int = 0
    """Where the next line goes; what lies behind is torn."""
    chained: bool = True
    """False for a log of format version 2."""
    unfinished: bool = False
    """Whether the last line is whole but for its newline."""

    def next(self, state: IndexState) -> tuple[bytes, Log]:
        """The line that a change appends, and the log with it."""
        line = log_line(state, self.number + 1, self.check)
        text = b"\n" + line if self.unfinished else line
        return text, Log(state, self.number + 1, line[-9:-1], self.lines + 1, self.end + len(text))

    def compacted(self) -> tuple[bytes, Log]:
        """The whole content of a log that says the same in one line, and that log."""
        line = log_line(self.state, self.number, _NONE)
        return line, replace(self, check=line[-9:-1], lines=1, end=len(line), chained=True, unfinished=False)


def log_line(state: IndexState, number: int, before: bytes) -> bytes:
    """One line."""
    text = b"%s %d %s" % (json.dumps(asdict(state)).encode("ascii"), number, before)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def read_log(data: bytes) -> Log:
    """All lines of a log, of which the last one counts; `DamagedLogError` for anything that no kill explains."""
    *lines, tail = data.split(b"\n")
    log, start, last = Log(), 0, b""
    for number, line in enumerate(lines, start=1):
        log, last = _followed(log, line, number), line
        start += len(line) + 1
        log = replace(log, end=start)
    if tail:
        log, last = _with_tail(log, tail, last)
    if not log.lines:
        raise DamagedLogError("it has no whole line")
    match = _LINE.fullmatch(last)
    assert match is not None
    try:
        return replace(log, state=IndexState.from_json(parse_json(match[1])))
    except ValueError as error:
        raise DamagedLogError(f"line {log.lines} makes no sense") from error


def _followed(log: Log, line: bytes, number: int) -> Log:
    """The log with one more line."""
    match = _checked(line)
    if match is None:
        raise DamagedLogError(f"line {number} fails its checksum")
    chained = match[2] is not None
    if log.lines and chained != log.chained:
        raise DamagedLogError(f"line {number} is of another format version than those before it")
    if not chained:
        return replace(log, lines=number, chained=False, check=match[4])
    count = int(match[2])
    if match[3] != log.check or (log.lines and count != log.number + 1):
        raise DamagedLogError(f"line {number} does not follow the one before it: a line was lost, repeated or moved")
    return replace(log, number=count, lines=number, check=match[4])


def _with_tail(log: Log, tail: bytes, last: bytes) -> tuple[Log, bytes]:
    """The log with what follows the last newline: a whole line counts, and a torn one does not."""
    if _checked(tail) is not None:
        whole = _followed(log, tail, log.lines + 1)
        return replace(whole, end=log.end + len(tail), unfinished=True), tail
    if _checked(tail[:-1]) is not None:  # no kill leaves anything but a newline behind a line
        raise DamagedLogError(f"line {log.lines + 1} has lost its end")
    return log, last


def _checked(line: bytes) -> re.Match[bytes] | None:
    """The parts of a line whose checksum is right."""
    match = _LINE.fullmatch(line)
    if match is None or match[4] != b"%08x" % zlib.crc32(line[:-9]):
        return None
    return match
