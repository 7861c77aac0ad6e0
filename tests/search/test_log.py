"""A log is torn at its end or damaged, and the two are never confused."""

import pytest

from eigenmap.search.log import DamagedLogError, IndexState, Log, read_log

STATES = [
    IndexState("str", {"ids.bin": n, "ids.ends": 8 * n}, {"ids.bin": 7 * n, "ids.ends": n}, {"index.json": 5})
    for n in range(1, 5)
]


def written(states=STATES):
    content, log = Log().compacted()
    for state in states:
        line, log = log.next(state)
        content += line
    return content, log


def test_the_last_line_counts():
    content, log = written()
    assert read_log(content) == log
    assert (log.state, log.number, log.lines, log.end) == (STATES[-1], 4, 5, len(content))


def test_a_torn_end_is_left_out_and_overwritten():
    content, _ = written()
    whole, _ = written(STATES[:-1])
    for cut in range(len(whole), len(content) - 1):
        log = read_log(content[:cut])
        assert (log.state, log.end, log.unfinished) == (STATES[-2], len(whole), False)


def test_a_line_without_its_newline_counts():
    content, _ = written(STATES[:-1])
    log = read_log(content[:-1])
    assert log.state == STATES[-2] and log.unfinished
    line, log = log.next(STATES[-1])
    assert read_log(content[:-1] + line) == log == written()[1]


def test_no_flipped_bit_loses_a_line_in_silence():
    content, log = written()
    for place in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            with pytest.raises(DamagedLogError):
                read_log(bytes(damaged))
    assert read_log(content) == log


@pytest.mark.parametrize("order", ["1234", "0234", "01134", "02134", "0124", "00123", "01324"])
def test_lines_that_are_lost_repeated_or_moved_are_noticed(order):
    lines = written()[0].splitlines(keepends=True)
    with pytest.raises(DamagedLogError, match="follow"):
        read_log(b"".join(lines[int(number)] for number in order))


def test_a_compacted_log_says_the_same_and_goes_on():
    _, log = written()
    content, short = log.compacted()
    assert read_log(content) == short
    assert (short.state, short.number, short.lines, content.count(b"\n")) == (log.state, 4, 1, 1)
    line, longer = short.next(STATES[0])
    assert read_log(content + line) == longer and longer.number == 5


def test_a_log_of_another_file_is_not_continued():
    content, _ = written()
    _, other = written(STATES[:2])
    with pytest.raises(DamagedLogError, match=r"line 6.*follow"):
        read_log(content + other.next(STATES[3])[0])


@pytest.mark.parametrize("content", [b"", b"{", b"\n", b"{}\n"])
def test_what_is_no_log_is_refused(content):
    with pytest.raises(DamagedLogError):
        read_log(content)


@pytest.mark.parametrize(
    "entries",
    [
        [],
        {"surprise": 1},
        {"sizes": {"../ids.bin": 1}, "crc32": {"../ids.bin": 1}, "id_type": "str"},
        {"sizes": {"ids.bin": -1}, "crc32": {"ids.bin": 1}, "id_type": "str"},
        {"sizes": {"ids.bin": 1}, "crc32": {}, "id_type": "str"},
        {"sizes": {"ids.bin": True}, "crc32": {"ids.bin": 1}, "id_type": "str"},
        {"sizes": {"ids.bin": 1}, "crc32": {"ids.bin": 1}, "id_type": "float"},
        {"sizes": {"ids.bin": 1}, "crc32": {"ids.bin": 1}},
        {"sizes": 3},
    ],
)
def test_a_line_that_makes_no_sense_is_refused(entries):
    with pytest.raises(ValueError, match="not describe an index"):
        IndexState.from_json(entries)
