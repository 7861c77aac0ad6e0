"""System calls of a process on files below a folder, recorded by strace and read back."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MISSING = "strace is needed to record system calls: install it (Debian: apt-get install strace), or run .ci/run"
LONGEST = 1 << 26
"""Bytes of one write that are recorded; a longer one is an error."""

_TRACED = (
    "open,openat,creat,close,dup,dup2,dup3,fcntl,lseek,write,pwrite64,writev,pwritev,pwritev2,sendfile,copy_file_range,"
    "truncate,ftruncate,fallocate,fsync,fdatasync,rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,"
    "unlinkat,rmdir,mkdir,mkdirat"
)
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_DESCRIPTOR = re.compile(r"(?<![\w\]])(\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>")
_WHOLE = re.compile(r"^(\w+)\((.*)\)\s+= (-?\d+)(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Call:
    """One system call that succeeded."""

    name: str
    arguments: str
    result: int

    @property
    def strings(self) -> list[bytes]:
        """All texts among the arguments: paths, and what is written."""
        found = _STRING.findall(self.arguments)
        assert not any(cut for _, cut in found), f"{self.name} has more than {LONGEST:,} bytes"
        return [_bytes(text) for text, _ in found]

    @property
    def descriptors(self) -> list[tuple[int, str]]:
        """Number and path of all open files among the arguments; the working folder is -1."""
        found = _DESCRIPTOR.findall(self.arguments)
        return [(-1 if number == "AT_FDCWD" else int(number), _bytes(path).decode()) for number, path in found]

    @property
    def paths(self) -> list[str]:
        """All paths among the arguments of a call that takes names, absolute."""
        names = [text.decode() for text in self.strings]
        folders = [path for _, path in self.descriptors] or [""]
        folders = folders * len(names) if len(folders) == 1 else folders
        return [str(Path(folder) / name) for folder, name in zip(folders, names, strict=True)]

    @property
    def numbers(self) -> list[int]:
        """All plain numbers among the arguments, in their order."""
        rest = _DESCRIPTOR.sub("", _STRING.sub("", self.arguments))
        return [int(number) for number in re.findall(r"(?<![\w.])\d+(?!\w)", rest)]


def record(command: Sequence[str], trace: Path, cwd: Path, env: dict[str, str]) -> list[Call]:
    """Run a command to its end; what it did with files, in the order in which the calls ended."""
    if shutil.which("strace") is None:
        raise AssertionError(MISSING)
    names = "?" + _TRACED.replace(",", ",?")  # some do not exist on every processor
    strace = ["strace", "--seccomp-bpf", "-f", "-qq", "-y", "-xx", "-s", str(LONGEST), "-o", str(trace)]
    done = subprocess.run(
        [*strace, "-e", f"trace={names}", "-e", "signal=none", *command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, f"the recorded process failed (may this user trace processes?): {done.stderr}"
    with trace.open(encoding="ascii") as lines:
        return list(parsed(lines))


def parsed(lines: Iterator[str] | Sequence[str]) -> Iterator[Call]:
    """The calls of a trace that succeeded; one that another thread interrupts is joined, and counts when it ends."""
    begun: dict[str, str] = {}
    for line in lines:
        process, _, text = line.rstrip("\n").partition(" ")
        text = text.lstrip()
        if text.endswith(" <unfinished ...>"):
            begun[process] = text.removesuffix(" <unfinished ...>")
            continue
        if (resumed := re.match(r"<\.\.\. \w+ resumed>", text)) is not None:
            text = begun.pop(process) + text[resumed.end() :]
        whole = _WHOLE.match(text)
        if whole is not None and int(whole[3]) >= 0:
            yield Call(whole[1], whole[2], int(whole[3]))


def _bytes(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))
