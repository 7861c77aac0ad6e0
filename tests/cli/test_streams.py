"""Standard output that is not UTF-8, full, closed, or read by nobody: every verb ends in order.

Verbs run one after the other in one process for each kind of stream, since starting one takes longer than they do.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from eigenmap.cli.console import progress_bar
from eigenmap.cli.streams import BROKEN_PIPE, UNWRITABLE, guarded_streams
from tests.cli.run import Result, succeed
from tests.cli.test_app import VERBS
from tests.end_to_end.process import LIMIT

HELP = [["--help"], *([*verb.split(), "--help"] for verb in VERBS)]
ENCODINGS = ["ascii", "cp1252", "latin-1", "utf-8"]

SEVERAL = """
import json, os, sys
from eigenmap.cli import main

codes = []
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    codes.append(code)
    os.write(2, b"<end>")
os.write(2, json.dumps(codes).encode())
"""


def one(*words: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run one command, in a process of its own."""
    return _run("from eigenmap.cli import main; main()", list(map(str, words)), **options)


def several(commands: Sequence[Sequence[object]], **options: object) -> tuple[list[Result], bytes]:
    """Run commands one after the other: code and standard error of each, and the standard output of all."""
    texts = [[str(word) for word in words] for words in commands]
    ended = _run(SEVERAL, [json.dumps(texts)], **options)
    assert ended.returncode == 0, ended.stderr.decode()
    *errors, codes = ended.stderr.decode("utf-8", "replace").split("<end>")
    return [Result(code, "", err) for code, err in zip(json.loads(codes), errors, strict=True)], ended.stdout or b""


def _run(program: str, words: list[str], shell: str = "", **options: object) -> subprocess.CompletedProcess[bytes]:
    """Run a program; `shell` are redirections, such as 1>&- for a standard output that is closed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    environment |= options.pop("env", {})  # type: ignore[arg-type]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | options
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-W", "error", "-c", program, *words]
    return subprocess.run(command, env=environment, timeout=LIMIT, check=False, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def odd_photos(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos whose names no 8-bit encoding has, steer a terminal, or are no text."""
    folder = tmp_path_factory.mktemp("odd")
    picture = next((photos / "disc").glob("*.png")).read_bytes()
    for name in ("Жёлтый.png", "a\x1b[2Jb.png", "c\u202egnp.png", "new\nline.png"):
        (folder / name).write_bytes(picture)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.png")).write_bytes(picture)
    return folder


@pytest.fixture(scope="module")
def odd_index(model_dir: Path, odd_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd-index") / "odd.index"
    succeed("index", model_dir, odd_photos, "--out", folder)
    return folder


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_verb_prints_in_every_encoding(
    encoding: str, model_dir: Path, odd_photos: Path, odd_index: Path, tmp_path: Path
) -> None:
    query = odd_photos / "Жёлтый.png"
    work: list[list[object]] = [
        ["--version"],
        ["recipes"],
        ["objectives"],
        ["info", model_dir],
        ["search", odd_index, query, "--top", "5"],
        ["duplicates", odd_index, "--threshold", "0.5"],
        ["embed", model_dir, odd_photos, "--out", tmp_path / "Жёлтый.npy"],
    ]
    results, out = several([*HELP, *work], env={"PYTHONIOENCODING": encoding})
    assert [result.code for result in results] == [0] * len(results), results
    assert not any("Traceback" in result.err for result in results)
    text = out.decode(encoding)  # nothing else is in it
    if encoding == "utf-8":
        assert "Жёлтый.png" in text and "│" in text and "█" in text
    else:
        assert r"\u0416\u0451\u043b\u0442\u044b\u0439.png" in text and "#####" in text
        assert "│" not in text and "+---" in text
    assert "\x1b" not in text and "\u202e" not in text
    assert (
        r"a\x1b[2Jb.png" in text and r"c\u202egnp.png" in text and r"new\nline.png" in text and r"caf\xe9.png" in text
    )


def test_a_full_disk_under_standard_output_is_one_sentence(model_dir: Path) -> None:
    commands = [*HELP, ["--version"], ["objectives"], ["info", model_dir]]
    with Path("/dev/full").open("wb") as full:
        for command, ended in ((words, one(*words, stdout=full)) for words in (["--help"], ["--version"])):
            assert (ended.returncode, ended.stderr) == (UNWRITABLE, _no_space()), command
        # The first failure turns the descriptor of the process to the null device: each gets its own.
        program = SEVERAL.replace("    try:\n", "    os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n    try:\n", 1)
        ended = _run(program, [json.dumps([[str(word) for word in words] for words in commands])], stdout=full)
    *errors, codes = ended.stderr.split(b"<end>")
    assert json.loads(codes) == [UNWRITABLE] * len(commands), ended.stderr.decode()
    assert set(errors) == {_no_space()}


def _no_space() -> bytes:
    return b"Error: standard output cannot be written: No space left on device.\n"


def test_a_closed_standard_output_is_one_sentence() -> None:
    for words in (["--version"], ["objectives"], ["fit", "images", "--help"]):
        ended = one(*words, shell="1>&-")
        assert ended.returncode == UNWRITABLE
        assert ended.stderr == b"Error: standard output cannot be written: it is closed.\n"


@pytest.mark.parametrize("words", [["--help"], ["objectives"], ["--version"]])
def test_a_reader_that_has_gone_ends_the_command_quietly(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = one(*words, stdout=writing)
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (BROKEN_PIPE, b"")


@pytest.mark.parametrize("kind", ["full", "closed", "nobody reads"])
def test_notes_that_nobody_can_read_do_not_stop_the_work(
    kind: str, model_dir: Path, photos: Path, tmp_path: Path
) -> None:
    out = tmp_path / "codes.npy"
    command = ["embed", model_dir, photos, "--out", out]
    if kind == "closed":
        ended = one(*command, shell="2>&-")
    else:
        reading, writing = os.pipe()
        os.close(reading)
        with Path("/dev/full").open("wb") as full:
            ended = one(*command, stderr=full if kind == "full" else writing)
        os.close(writing)
    assert ended.returncode == 0 and out.is_file()


def test_an_error_that_cannot_be_told_still_has_its_code() -> None:
    with Path("/dev/full").open("wb") as full:
        assert one("nonsense", stderr=full).returncode == 2
        assert one("--version", stdout=full, stderr=full).returncode == UNWRITABLE
    assert one("--version", shell="0<&- 1>&- 2>&-").returncode == UNWRITABLE


def test_files_are_not_opened_as_closed_standard_streams(model_dir: Path, photos: Path, tmp_path: Path) -> None:
    """With all three closed, the next files opened would be 0, 1 and 2, and what is printed would go into them."""
    out = tmp_path / "codes.npy"
    command = ["embed", model_dir, photos, "--out", out]
    ended = one(*command, shell="0<&- 1>&- 2>&-")
    succeed("embed", model_dir, photos, "--out", tmp_path / "again.npy")
    assert ended.returncode == 0
    assert out.read_bytes() == (tmp_path / "again.npy").read_bytes()


def test_a_bar_is_drawn_with_characters_that_the_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "vt100")
    err = Old(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stderr", err)
    with guarded_streams(), progress_bar("reading") as tick:
        assert tick is not None
        tick(1, 2)
        tick(2, 2)
    assert b"1/2" in err.buffer.getvalue() and b"---" in err.buffer.getvalue()  # type: ignore[attr-defined]


def test_streams_are_as_they_were_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    with guarded_streams():
        print("Ж…█")
        assert sys.stdout is not out and sys.stdout.encoding == "ascii"
    assert sys.stdout is out
    assert out.buffer.getvalue() == b"\\u0416...#\n"  # type: ignore[attr-defined]
