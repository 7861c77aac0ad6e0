"""Damage of any file of an index is found, named and never made worse."""

import json
import os
import re
import sqlite3
import zlib
from contextlib import suppress

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import Approximate, CodeIndex, checksums, directory
from eigenmap.search.adding import add
from eigenmap.search.checksums import damaged_part, extended
from eigenmap.search.directory import Directory
from eigenmap.search.log import IndexState, Log, read_log
from eigenmap.search.notes import note_bytes
from eigenmap.service.explorer import Explorer
from eigenmap.service.thumbnails import FILE, StoredPictures, store
from tests.search.building import build_index

K = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nothing here is about power cuts, and waiting for the disk takes most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


@pytest.fixture
def three(tmp_path):
    """300 items, added in three changes, of which some were deleted and replaced."""
    path = tmp_path / "photos.index"
    index = CodeIndex(K, where=path, fingerprint="abc")
    for n in range(3):
        index.add(codes(100, n), [f"{n}-{i}.jpg" for i in range(100)], [{"n": n}] * 100)
    index.upsert(codes(2, 7), ["0-1.jpg", "1-1.jpg"])
    index.delete(["2-1.jpg"])
    return path


def flip(file, place, bit=1):
    content = bytearray(file.read_bytes())
    content[place] ^= bit
    file.write_bytes(content)


def content_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir() if file.is_file()}


def test_a_whole_index_is_told_part_by_part(three):
    lines = CodeIndex.open(three).verify()
    assert [line.split(":")[0] for line in lines[:3]] == ["log", "index.json", "codec.json"]
    assert "6 lines" in lines[0]
    assert "features-8-16.bin: 9,664 bytes" in lines and any(
        re.search("302 rows.* 3 .*deleted", line) for line in lines
    )
    assert CodeIndex(K).verify() == []  # in memory there is nothing to compare


def test_a_flipped_bit_in_the_log_loses_nothing_and_is_named(three):
    """Of old, 300 items became 200, `verify` passed, and the next change cut the rest off for good."""
    index = CodeIndex.open(three)
    lines = (three / "log").read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        flip(three / "log", sum(map(len, lines[: number - 1])) + len(line) // 2)
        before = content_of(three)
        message = rf"log .*damaged.*line {number} "
        for attempt in (
            lambda: CodeIndex.open(three),
            lambda: len(index),
            lambda: index.add(codes(1), ["new"]),
            lambda: index.delete(["0-2.jpg"]),
            lambda: index.verify(),
        ):
            with pytest.raises(EigenmapError, match=message):
                attempt()
        assert content_of(three) == before
        (three / "log").write_bytes(b"".join(lines))
    assert len(CodeIndex.open(three)) == len(index) == 299


def test_damage_that_changes_neither_size_nor_time_is_seen_before_the_next_change(three):
    index = CodeIndex.open(three)
    assert len(index) == 299
    file = three / "log"
    before = file.stat()
    descriptor = os.open(file, os.O_WRONLY)
    os.pwrite(descriptor, b"X", 100)
    os.close(descriptor)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = content_of(three)
    with pytest.raises(EigenmapError, match=r"log .*line 1.*checksum"):
        index.add(codes(1), ["new"])
    assert content_of(three) == after


@pytest.mark.parametrize(
    "name",
    [
        *("features-0-8.bin", "features-8-16.bin", "features-16-20.bin", "ids.bin", "ids.ends", "ids.hash"),
        *("metadata.bin", "metadata.ends", "deleted.bin", "codec.json", "index.json", "advice.json"),
    ],
)
def test_a_flipped_bit_anywhere_is_found(three, name):
    CodeIndex.open(three).backend.write_note("advice", {"a": 1})
    CodeIndex.open(three).verify()
    file = three / name
    for place in {0, file.stat().st_size // 2, file.stat().st_size - 1}:
        before = file.read_bytes()
        flip(file, place, 4)
        with pytest.raises(EigenmapError, match=name.replace(".", r"\.") if name != "index.json" else "index"):
            CodeIndex.open(three).verify()
        file.write_bytes(before)
    CodeIndex.open(three).verify()


def test_a_large_file_says_where_it_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(checksums, "BLOCK", 1 << 10)
    index = CodeIndex(K, where=tmp_path / "an.index")
    for n in range(4):
        index.add(codes(100, n), [f"{n}-{i}" for i in range(100)])
    size = 400 * 8 * 4
    assert (tmp_path / "an.index" / "features-0-8.bin.crc").stat().st_size == 4 * (size >> 10)
    index.verify()
    for place in (0, 1023, 1024, 5000, size - 1):
        flip(tmp_path / "an.index" / "features-0-8.bin", place)
        start = place >> 10 << 10
        where = rf"features-0-8\.bin .*damaged.*{start:,} and {min(size, start + 1024):,}"
        with pytest.raises(EigenmapError, match=where):
            index.verify()
        flip(tmp_path / "an.index" / "features-0-8.bin", place)
    flip(tmp_path / "an.index" / "features-0-8.bin.crc", 3)
    with pytest.raises(EigenmapError, match=r"features-0-8\.bin\.crc.*damaged"):
        index.verify()


def test_running_checksums_are_those_of_the_whole(monkeypatch):
    monkeypatch.setattr(checksums, "BLOCK", 64)
    data = np.random.default_rng(0).bytes(1000)
    notes, crc, size = b"", 0, 0
    for end in (10, 64, 65, 300, 1000):
        more, crc = extended(data[size:end], size, crc)
        notes, size = notes + more, end
    assert crc == zlib.crc32(data)
    stored = np.frombuffer(notes, "<u4").tolist()
    assert stored == [zlib.crc32(data[:end]) for end in range(64, 1000, 64)]
    blocks = [data[start : start + 64] for start in range(0, 1000, 64)]
    assert damaged_part(iter(blocks), 1000, crc, stored) is None
    assert damaged_part(iter([*blocks[:3], bytes(64), *blocks[4:]]), 1000, crc, stored) == (192, 256)
    assert damaged_part(iter([*blocks[:3], bytes(64), *blocks[4:]]), 1000, crc, []) == (0, 1000)


def test_bytes_of_a_change_that_was_cut_off_are_told_and_do_no_harm(three):
    with (three / "ids.bin").open("ab") as stream:
        stream.write(b"torn")
    assert any(re.search(r"^ids\.bin: .*\b4 .*interrupted", line) for line in CodeIndex.open(three).verify())
    CodeIndex.open(three).add(codes(1), ["new"])
    assert not any("interrupted" in line for line in CodeIndex.open(three).verify())


def test_a_file_that_became_shorter_is_not_filled_with_zeros(three):
    index = CodeIndex.open(three)
    os.truncate(three / "features-0-8.bin", 100)
    before = content_of(three)
    with pytest.raises(EigenmapError, match=r"features-0-8\.bin.*truncated"):
        index.add(codes(1), ["new"])
    assert content_of(three) == before


def test_an_approximate_index_has_a_checksum_and_is_made_again_if_damaged(tmp_path):
    path = tmp_path / "an.index"
    index = CodeIndex(K, where=path, backend="faiss", approximate=Approximate("sq8", dim=8, shortlist=50))
    index.add(codes(500), list(range(500)))
    expected = index.search(codes(3, 5)).ids
    file = path / "prefix-8.sq8"
    assert sum(line.startswith("prefix-8.sq8: ") for line in index.verify()) == 1 and not list(path.glob(".*"))
    whole = file.read_bytes()
    flip(file, len(whole) // 2)
    with pytest.raises(EigenmapError, match=r"prefix-8\.sq8.*damaged"):
        index.verify()
    assert CodeIndex.open(path).search(codes(3, 5)).ids == expected
    assert file.read_bytes() == whole  # made again
    file.write_bytes(whole[:-25])
    assert any(re.search(r"prefix-8\.sq8: not checked", line) for line in index.verify())
    assert CodeIndex.open(path).search(codes(3, 5)).ids == expected
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(b"mine")
    file.symlink_to(tmp_path / "elsewhere")
    assert CodeIndex.open(path).search(codes(3, 5)).ids == expected
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_pictures_are_compared_with_their_checksums(three):
    pixels = np.random.default_rng(0).integers(0, 255, (5, 3, 40, 40), dtype=np.uint8)
    store(three, ["a", "b", "c", "d", "e"], pixels)
    assert "thumbnails.sqlite: 5 pictures" in CodeIndex.open(three).verify()
    with sqlite3.connect(three / FILE) as connection:
        (image,) = connection.execute("SELECT image FROM thumbnails WHERE id = 'c'").fetchone()
        connection.execute("UPDATE thumbnails SET image = ? WHERE id = 'c'", (image[:-1] + b"x",))
    connection.close()
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*checksum.*\bc "):
        CodeIndex.open(three).verify()
    (three / FILE).write_bytes(b"SQLite format 3\0" + bytes(200))
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*damaged"):
        CodeIndex.open(three).verify()


def test_a_note_is_compared_with_its_checksum(three):
    """Of old, a note passed as long as it was JSON: /media could become /medib."""
    backend = CodeIndex.open(three).backend
    said = {"sources": [["camera1", "/media/camera1"]], "share": 0.5, "name": "é", "none": None}
    backend.write_note("sources", said)
    assert CodeIndex.open(three).backend.read_note("sources") == said
    file = three / "sources.json"
    whole = file.read_bytes()
    other = Directory.open(three)
    for place in range(len(whole)):
        for bit in range(8):
            flip(file, place, 1 << bit)
            try:
                found = other.read_note("sources", required=True)
            except EigenmapError as error:
                assert re.search(r"sources\.json.*damaged", str(error))  # of a few the meaning stays
            else:
                assert found == said
            file.write_bytes(whole)
    file.write_bytes(whole.replace(b"/media", b"/medib"))
    with pytest.raises(EigenmapError, match=r"sources\.json.*checksum"):
        CodeIndex.open(three).verify()
    assert CodeIndex.open(three).backend.read_note("sources") is None
    file.write_text('{"sources": [["camera1", "/media/camera1"]]}')  # as an earlier version wrote it
    assert any(re.search(r"sources\.json: not checked", line) for line in CodeIndex.open(three).verify())
    assert other.read_note("sources", required=True) == {"sources": [["camera1", "/media/camera1"]]}
    for plain in ({}, {"n": 3}, {"crc": 0}):
        file.write_text(json.dumps(plain))
        assert other.read_note("sources", required=True) == plain


def test_a_part_that_goes_missing_is_named(three, tmp_path):
    picture = np.zeros((1, 3, 8, 8), np.uint8)

    def finish(made):
        made.write_note("sources", {"sources": [["camera1", "/media/camera1"]]})
        store(made.path, ["0-1.jpg"], picture)
        (made.path / "model").mkdir()

    path = tmp_path / "whole.index"
    index = CodeIndex.open(three)
    build_index(index.about, index.batches(), path, finish=finish)
    parts = ["model", "sources.json", "thumbnails.sqlite"]
    assert CodeIndex.open(path).backend.read_note("parts") == {"parts": parts}
    CodeIndex.open(path).save(path, overwrite=True)  # over itself: they are carried over
    for name in parts:
        (path / name).rename(tmp_path / name)
        missing = CodeIndex.open(path)
        if name != "model":
            (path / "model").rename(tmp_path / "aside")  # it is empty here, and would be found damaged before
            (path / "parts.json").write_bytes(note_bytes({"parts": parts[1:]}))
        with pytest.raises(EigenmapError, match=rf"whole\.index/{name}.*missing"):
            missing.verify()
        if name != "model":
            (tmp_path / "aside").rename(path / "model")
        (tmp_path / name).rename(path / name)
    (path / "parts.json").write_bytes(note_bytes({"parts": ["elsewhere"]}))
    (path / "model").rmdir()
    with pytest.raises(EigenmapError, match=r"parts\.json.*damaged"):
        CodeIndex.open(path).verify()


def test_parts_that_come_with_an_addition_are_noted(three, tmp_path):
    index = CodeIndex.open(three)
    add(
        index,
        tmp_path / "camera",
        ["a"],
        codes(1),
        store=lambda ids, rows: store(three, ids, np.zeros((1, 3, 8, 8), np.uint8)),
    )
    assert index.backend.read_note("parts") == {"parts": ["sources.json", "thumbnails.sqlite"]}
    (three / FILE).unlink()
    add(index, tmp_path / "camera", ["b"], codes(1))
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*missing"):
        CodeIndex.open(three).verify()
    (three / "parts.json").write_text("{")
    add(index, tmp_path / "camera", ["c"], codes(1))
    assert index.backend.read_note("parts") == {"parts": ["sources.json"]}


def test_pictures_and_a_model_that_are_links_are_not_followed(three, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store(elsewhere, ["0-1.jpg"], np.zeros((1, 3, 8, 8), np.uint8))
    before = (elsewhere / FILE).read_bytes()
    (three / FILE).symlink_to(elsewhere / FILE)
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*symbolic link"):
        store(three, ["0-2.jpg"], np.zeros((1, 3, 8, 8), np.uint8))
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*symbolic link"):
        CodeIndex.open(three).verify()
    assert StoredPictures(three).read("0-1.jpg") is None
    assert (elsewhere / FILE).read_bytes() == before and list(elsewhere.iterdir()) == [elsewhere / FILE]
    (three / FILE).unlink()
    (three / FILE).mkdir()
    with pytest.raises(EigenmapError, match=r"thumbnails\.sqlite.*regular file"):
        store(three, ["0-2.jpg"], np.zeros((1, 3, 8, 8), np.uint8))
    (three / FILE).rmdir()
    (three / "model").symlink_to(elsewhere)
    for attempt in (CodeIndex.open(three).verify, lambda: Explorer.open(three)):
        with pytest.raises(EigenmapError, match=r"photos\.index/model.*symbolic link"):
            attempt()


@pytest.mark.parametrize("name", ["deleted.bin", "log", "codec.json", "ids.bin", "index.json"])
def test_a_symbolic_link_is_not_followed(tmp_path, name):
    path, victim = tmp_path / "an.index", tmp_path / "victim"
    index = CodeIndex(K, where=path)
    index.add(codes(3), ["a", "b", "c"])
    victim.write_bytes(b"precious" * 100)
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(victim)
    with suppress(EigenmapError):  # what is mapped already may go on being used
        index.add(codes(1), ["d"])
    with pytest.raises(EigenmapError, match=r"an\.index"):
        CodeIndex.open(path).delete(["b"])
    assert victim.read_bytes() == b"precious" * 100


@pytest.mark.parametrize(
    ("options", "codec"),
    [
        ({"precision": "float32"}, {"kind": "float16"}),
        ({"precision": "float16"}, {"kind": "float32"}),
        ({"precision": "int8"}, {"kind": "float32"}),
        ({"precision": "signs", "bytes_per_item": 1}, {"kind": "signs", "sizes": [1.0] * K, "kept": 16}),
        ({"precision": "float32"}, {"kind": "int8", "steps": [1.0] * K}),
    ],
)
def test_a_codec_that_contradicts_the_index_is_refused(tmp_path, options, codec):
    """Also where its checksum is right, as somebody who means harm would make it."""
    path = tmp_path / "an.index"
    CodeIndex(K, where=path, **options).add(codes(30), list(range(30)))
    content = json.dumps(codec).encode()
    (path / "codec.json").write_bytes(content)
    with pytest.raises(EigenmapError, match=r"codec\.json.*damaged"):
        CodeIndex.open(path)
    state = read_log((path / "log").read_bytes()).state
    forged = IndexState(state.id_type, state.sizes, state.crc32, {**state.fixed, "codec.json": zlib.crc32(content)})
    (path / "log").write_bytes(Log(forged).compacted()[0])
    with pytest.raises(EigenmapError, match=r"codec\.json.*index\.json"):
        CodeIndex.open(path)


def test_the_log_stays_short(tmp_path):
    path = tmp_path / "an.index"
    index, other = CodeIndex(K, where=path), None
    longest = 0
    for n in range(150):
        index.add(codes(1, n), [n])
        longest = max(longest, (path / "log").read_bytes().count(b"\n"))
        other = other or CodeIndex.open(path)
        if n % 20 == 0:
            assert len(other) == n + 1
    assert longest <= directory._LONGEST_LOG
    other.add(codes(1, 1000), [1000])
    assert len(index) == len(other) == len(CodeIndex.open(path)) == 151
    index.verify()
    assert not list(path.glob(".*"))
