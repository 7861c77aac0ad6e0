"""An index in other processes: forked, or sent there by its place."""

import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.search import CodeIndex

K = 12


def codes(n, seed=0):
    return np.random.default_rng(seed).standard_normal((n, K)).astype(np.float32)


def best(index):
    return index.search(codes(20, seed=1), 3).ids


FORKED = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks of processes with threads
import numpy as np
from eigenmap.search import CodeIndex
backend, where, writing = sys.argv[1], sys.argv[2] or None, sys.argv[3] == "writing"
rng = np.random.default_rng(0)
index = CodeIndex(12, backend=backend, where=where)
index.add(rng.standard_normal((20_000, 12)), range(20_000))
queries = rng.standard_normal((200, 12))
before = index.search(queries).ids  # OpenMP has its threads now
truth = index.search(queries, exact=True).ids
stop, taken = threading.Event(), 20_000
def write():
    global taken
    while not stop.is_set():
        index.upsert(np.zeros((1, 12)), [taken])  # a cosine of 0 is never among the best
        index.delete([taken])
        taken += 1
writer = threading.Thread(target=write)
if writing:
    writer.start()
ended = []
for _ in range(20 if writing else 3):
    child = os.fork()
    if not child:
        try:
            known = len(index)
            right = index.search(queries, exact=True).ids == truth
            index.add(queries[:1], [10**6 + os.getpid()])
            index.search(queries[0])
            os._exit(0 if right and known in (20_000, 20_001) else 1)
        finally:
            os._exit(2)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if where:
        index.delete([10**6 + child])
stop.set()
if writing:
    writer.join()
print(set(ended), index.search(queries).ids == before)
"""


@pytest.mark.parametrize("writing", ["", "writing"])
@pytest.mark.parametrize(("backend", "place"), [("flat", ""), ("flat", "index"), ("faiss", "")])
def test_a_forked_process_goes_on_searching(backend, place, writing, tmp_path):
    """After a search, which starts threads that the child does not have, and in the middle of changes."""
    where = str(tmp_path / place) if place else ""
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, backend, where, writing],
        capture_output=True,
        text=True,
        timeout=120,  # a child that hangs never ends
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        check=False,
    )
    assert ended.stdout == "{0} True\n", ended.stderr[-2000:]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_index_on_disk_goes_to_another_process_by_its_place(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    index = CodeIndex(K, where="index")
    index.add(codes(300), range(300))
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        assert pool.map(best, [index] * 3) == [best(index)] * 3


def test_what_is_pickled_is_the_place_and_how_it_is_opened(tmp_path, monkeypatch):
    index = CodeIndex(K, where=tmp_path / "index", precision="bits", bytes_per_item=6, fingerprint="f" * 64)
    index.add(codes(300), range(300))
    opened = CodeIndex.open(tmp_path / "index", memory_bytes=12_345)
    opened.rank_by("cosine")
    sent = pickle.dumps(opened)
    assert len(sent) < 1000
    again = pickle.loads(sent)
    assert again.backend.memory_bytes == 12_345 and again.backend.ranking == "cosine"
    assert again.search(codes(4, seed=1)).ids == opened.search(codes(4, seed=1)).ids
    other = CodeIndex(K, fingerprint="e" * 64)
    other.add(codes(3), range(3))
    other.save(tmp_path / "index", overwrite=True)
    with pytest.raises(EigenmapError, match="model eeeeeeeeeeee"):
        pickle.loads(sent)


def test_an_index_in_memory_says_why_it_cannot_be_pickled():
    index = CodeIndex(K)
    index.add(codes(3), range(3))
    with pytest.raises(EigenmapError, match="pickled"):
        pickle.dumps(index)
