"""Forks beside threads that save, add, search and import."""

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal, sys, threading, time, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks of processes with threads
from pathlib import Path
import numpy as np
from eigenmap.core.folders import folder_lock
from eigenmap.search import CodeIndex, codecs, saving
place, rng = Path(sys.argv[1]), np.random.default_rng(0)

def made(name):
    index = CodeIndex(4, where=place / name)
    index.add(rng.standard_normal((50, 4)), range(50))
    return index

def fork(use):
    child = os.fork()
    if not child:
        signal.alarm(30)  # a child that hangs is killed
        try:
            use()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def started(work, *values, **named):
    thread = threading.Thread(target=work, args=values, kwargs=named, daemon=True)
    thread.start()
    return thread

def until_changing(index):
    while index.backend._turn.acquire(blocking=False):
        index.backend._turn.release()
        time.sleep(0.01)

begun = threading.Event()
os.register_at_fork(before=begun.set)
"""

SAVE = """
index, copy, saving_now = made("index"), saving._copy_items, threading.Event()
def slow(items, directory):
    saving_now.set()
    begun.wait()
    time.sleep(0.3)  # the fork waits for the change by now
    copy(items, directory)
saving._copy_items = slow
saver = started(index.save, place / "index", overwrite=True)
saving_now.wait()
adder = started(index.add, rng.standard_normal((1, 4)), [50])
until_changing(index)
ended = fork(lambda: index.search(np.ones(4)))
saver.join()
adder.join()
print(ended, len(index))
"""

SEARCH = """
indexes = [made(str(number)) for number in range(8)]
indexes[4].search(np.ones(4))
with folder_lock(place / "4"):  # as another process would
    adder = started(indexes[4].add, rng.standard_normal((1, 4)), [50])
    until_changing(indexes[4])
    forks = started(fork, lambda: None)
    begun.wait()
    time.sleep(0.3)
    found = [len(index.search(np.ones(4)).ids[0]) for index in indexes]
    new = CodeIndex(4, where=place / "new")
    new.add(rng.standard_normal((5, 4)), range(5))
adder.join()
forks.join()
print(found == [10] * 8, len(indexes[4]))
"""

IMPORT = """
Path(place / "faiss.py").write_text("import builtins, time\\nbuiltins.importing.set()\\ntime.sleep(0.5)\\n")
sys.path.insert(0, str(place))
import builtins
builtins.importing = threading.Event()
def imports():
    import faiss
def learns():
    codecs.levels_of(np.ones((3, 2), np.float32))
thread = started({"imports": imports, "learns": learns}[sys.argv[2]])
importing.wait()
ended = fork(imports)
thread.join()
print(ended)
"""


def ran(script: str, *arguments: str) -> str:
    command = [sys.executable, "-c", BEGIN + script, *arguments]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        return "it hangs"
    return ended.stdout + ended.stderr[-2000:]


def test_a_fork_beside_a_save_and_an_add_waits_for_both(tmp_path: Path) -> None:
    assert ran(SAVE, str(tmp_path)) == "0 51\n"


def test_searches_and_new_indexes_go_on_while_a_fork_waits(tmp_path: Path) -> None:
    assert ran(SEARCH, str(tmp_path)) == "True 51\n"


@pytest.mark.parametrize("who", ["imports", "learns"])
def test_a_fork_waits_for_the_import_of_faiss(tmp_path: Path, who: str) -> None:
    assert ran(IMPORT, str(tmp_path), who) == "0\n"
