"""Threads that search while another changes the index: every answer is that of one state.

`EIGENMAP_THREAD_ROUNDS` sets how often the changes are gone through (once, or hundreds of times).
"""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from eigenmap.search import Approximate, CodeIndex

K, READERS = 12, 8
ROUNDS = int(os.environ.get("EIGENMAP_THREAD_ROUNDS", "1"))

KINDS = {
    "flat": {},
    "flat on disk": {"where": True},
    "ivf": {"backend": "faiss", "approximate": Approximate("ivf", 8, 150, 64)},
    "ivf on disk": {"backend": "faiss", "approximate": Approximate("ivf", 8, 150, 64), "where": True},
    "hnsw": {"backend": "faiss", "approximate": Approximate("hnsw", 8, 150, 800)},
    "int8": {"precision": "int8"},
    "bits": {"precision": "bits", "bytes_per_item": 6},
    "bits on disk": {"precision": "bits", "bytes_per_item": 6, "where": True},
}


def codes(n, seed):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def made(kind, place):
    options = dict(KINDS[kind])
    if options.pop("where", False):
        options["where"] = place
    index = CodeIndex(K, **options)
    index.add(codes(300, 0), range(300), {"odd": [i % 2 for i in range(300)]})
    return index


def grow(index, n):
    first = 300 + 8 * n
    index.add(codes(8, 500 + n), range(first, first + 8), {"odd": [i % 2 for i in range(8)]})


def replace(index, n):
    index.update(codes(5, 100 + n), range(20 * n, 20 * n + 5))


def remove(index, n):
    index.delete(range(20 * n + 7, 20 * n + 11))


CHANGES = [(change, n) for n in range(12) for change in (grow, replace, remove)]

ASKED = {
    "one": lambda index: search(index, 1, dim=5),
    "one, full length": lambda index: search(index, 1),
    "many": lambda index: search(index, 20, dim=8),
    "many, full length": lambda index: search(index, 20),
    "funnel": lambda index: search(index, 20, funnel=[(3, 200), (8, 100), (K, 6)]),
    "exact": lambda index: search(index, 3, exact=True),
    "filter": lambda index: search(index, 2, where={"odd": 1}),
    "ids": lambda index: index.ids,
    "batches": lambda index: [(part.ids, part.codes.sum(axis=1).tolist()) for part in index.batches(70)],
    "known": lambda index: index.metadata([2, 299]),
}


def search(index, queries, **options):
    found = index.search(codes(queries, 1000), **options)
    return found.ids, np.round(found.scores, 4).tolist()


def close(got, wanted):
    """Equal, but for what the order of a sum changes in a score."""
    if not isinstance(got, tuple) or got[0] != wanted[0]:
        return got == wanted
    return np.allclose(got[1], wanted[1], atol=2e-4)


@pytest.fixture
def _impatient():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_is_that_of_one_state(kind, tmp_path):
    """Eight threads ask while one changes: what each gets is what the index alone says before or after a change."""
    alone = made(kind, tmp_path / "alone")
    expected = [{name: ask(alone) for name, ask in ASKED.items()}]
    for change, n in CHANGES:
        change(alone, n)
        expected.append({name: ask(alone) for name, ask in ASKED.items()})
    for turn in range(ROUNDS):
        index = made(kind, tmp_path / f"{turn}")
        begun, ended, wrong, asked = [0], [0], [], [0] * READERS
        start = threading.Barrier(READERS + 1)

        def read(reader, index=index, begun=begun, ended=ended, wrong=wrong, asked=asked, start=start):
            names = list(ASKED)[reader % len(ASKED) :] + list(ASKED)[: reader % len(ASKED)]
            start.wait()
            try:
                while not wrong and (ended[0] < len(CHANGES) or not asked[reader]):
                    name = names[asked[reader] % len(names)]
                    first = ended[0]
                    got = ASKED[name](index)
                    last = begun[0]
                    asked[reader] += 1
                    if not any(close(got, expected[state][name]) for state in range(first, last + 1)):
                        wrong.append(f"{name!r} between the states {first} and {last}: {got}")
            except Exception as error:  # of any kind: it is the test's to report
                wrong.append(repr(error))

        threads = [threading.Thread(target=read, args=(reader,)) for reader in range(READERS)]
        for thread in threads:
            thread.start()
        start.wait()
        for change, n in CHANGES:
            begun[0] += 1
            change(index, n)
            ended[0] += 1
            before = sum(asked)
            while sum(asked) < before + READERS // 2 and not wrong:  # so that changes fall into searches
                time.sleep(0)
        for thread in threads:
            thread.join()
        assert not wrong, wrong[0]
        assert sum(asked) >= len(CHANGES) * READERS // 2


TOGETHER = """
import sys, threading
import numpy as np
from eigenmap.search import Approximate, CodeIndex
method, rounds = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
codes, queries = (rng.standard_normal((n, 12)).astype(np.float32) for n in (600, 20))
exact = CodeIndex(12)
exact.add(codes, range(600))
truth = exact.search(queries, funnel=[(8, 300), (12, 10)]).ids
wrong = 0
for turn in range(rounds):
    index = CodeIndex(12, backend="faiss", approximate=Approximate(method, 8, 300, 800))
    index.add(codes, range(600))
    start, found = threading.Barrier(8), [None] * 8
    def search(number):
        start.wait()
        found[number] = index.search(queries).ids
    threads = [threading.Thread(target=search, args=(number,)) for number in range(8)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    wrong += sum(ids != truth for ids in found)
print(wrong)
"""


@pytest.mark.parametrize("method", ["ivf", "hnsw", "sq8"])
def test_threads_that_only_search_share_the_approximate_index(method):
    """One addition, then eight first searches at once: the index is made once, and all find the same."""
    program = [sys.executable, "-c", TOGETHER, method, str(60 * ROUNDS)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=600 + 10 * ROUNDS, check=False)
    assert (ended.returncode, ended.stdout) == (0, "0\n"), ended.stderr[-2000:]
