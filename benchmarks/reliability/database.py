"""A PostgreSQL server that stops and starts again under load: every answer is right, every change is made once.

    python -m benchmarks.reliability.database --rounds 2000 --restarts 20

`eigenmap serve` shows folders, so that no database stands behind the API; what restarts here is the server behind a
table of codes. Four clients search it, and each adds, replaces and deletes items of its own. Meanwhile the server is
stopped and started again: in turn politely (it waits for its clients, for a while), at once, and as in a loss of power.
An operation must end as it does without restarts, or with one sentence (`EigenmapError`). Afterwards the table must
hold exactly what was confirmed, and of every refused change all or nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.outcome import Outcome

CLIENTS = 4
ITEMS, LENGTH, TABLE = 300, 8, "photos"
STOPS = {"politely": signal.SIGTERM, "at once": signal.SIGINT, "as in a loss of power": signal.SIGQUIT}
POLITE_S = 2.0
"""Seconds after which a polite stop, which waits for clients, becomes one at once."""
PAUSE_S = 2.0
"""Mean seconds between a start and the next stop."""


class Change(NamedTuple):
    """What a change does: codes it writes by name, and names it deletes."""

    written: dict[str, Any]
    deleted: list[str]


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    from tests.database import running_server

    with tempfile.TemporaryDirectory(prefix="database") as name, ExitStack() as servers:
        data = Path(name) / "data"
        url = servers.enter_context(running_server(data))
        codes = np.random.default_rng(given.seed).normal(size=(ITEMS, LENGTH)).astype(np.float32)
        expected = _fill(url, codes)
        each, enough, lock = -(-given.rounds // CLIENTS), threading.Event(), threading.Lock()
        clients = [Client(url, number, given.seed, codes, expected, found, lock) for number in range(CLIENTS)]
        threads = [threading.Thread(target=client.work, args=(each, enough)) for client in clients]
        for thread in threads:
            thread.start()
        chance = random.Random(given.seed)
        for number in range(given.restarts):
            time.sleep(chance.uniform(0, 2 * PAUSE_S))
            began = time.perf_counter()
            _stop(data, how := list(STOPS)[number % len(STOPS)])
            servers.enter_context(running_server(data))
            with lock:
                found.counts[f"restarted {how}"] += 1
                found.measured.setdefault("seconds_away", []).append(round(time.perf_counter() - began, 2))
        enough.set()
        for thread in threads:
            thread.join()
        for client in clients:
            client.compare()
        _stop(data, "at once")  # the helpers of earlier starts would leave it running


def _fill(url: str, codes: Any) -> list[list[str]]:
    """Make the table; return what a search for each of its items finds."""
    from eigenmap.search import CodeIndex

    names = [f"item {i}" for i in range(ITEMS)]
    with CodeIndex(LENGTH, backend="postgres", where=url, table=TABLE) as index:
        index.add(codes, names, [{"kind": "old"}] * ITEMS)
    flat = CodeIndex(LENGTH)
    flat.add(codes, names)
    return [[str(name) for name in names] for names in flat.search(codes, 5).ids]


def _stop(data: Path, how: str) -> None:
    process = int((data / "postmaster.pid").read_text().split()[0])
    os.kill(process, STOPS[how])
    began = time.perf_counter()
    while Path(f"/proc/{process}").exists():
        if how == "politely" and time.perf_counter() - began > POLITE_S:
            os.kill(process, signal.SIGINT)
        time.sleep(0.02)


class Client:
    """One client with items of its own, beside those that all search for."""

    def __init__(
        self, url: str, number: int, seed: int, codes: Any, expected: list[list[str]], found: Outcome, lock: Any
    ) -> None:
        self.url, self.codes, self.expected, self.found, self.lock = url, codes, expected, found, lock
        self.name = f"client {number}"
        self.chance = random.Random(100 * seed + number)
        self.confirmed: dict[str, Any] = {}
        self.refused: list[tuple[Change, dict[str, Any]]] = []
        """Refused changes, with the codes that were there before."""
        self.made = 0

    def work(self, rounds: int, enough: threading.Event) -> None:
        """Search and change for so many rounds, and as long as the server restarts."""
        done = 0
        try:
            index = self._patiently(self._open)
            while done < rounds or not enough.is_set():
                done += 1
                if self.chance.random() < 0.5:
                    self._search(index)
                else:
                    self._change(index, self._planned())
            index.close()
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")

    def _open(self) -> Any:
        from eigenmap.search import CodeIndex

        return CodeIndex.open(self.url, table=TABLE)

    def _patiently(self, work: Callable[[], Any]) -> Any:
        """Repeat what is refused until the server is back."""
        from eigenmap import EigenmapError

        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            with suppress(EigenmapError):
                return work()
            time.sleep(1)
        return work()

    def _search(self, index: Any) -> None:
        from eigenmap import EigenmapError

        row = self.chance.randrange(ITEMS)
        try:
            ids = index.search(self.codes[row : row + 1], 5, where={"kind": "old"}).ids[0]
        except EigenmapError as error:
            self._count("search refused", str(error))
            return
        self._count("search answered")
        if [str(name) for name in ids] != self.expected[row]:
            self._fail(f"a search for item {row} found {ids}")

    def _planned(self) -> Change:
        """Add two items, or replace one and add one, or delete one."""
        self.made += 1
        rng = np.random.default_rng(self.chance.randrange(2**32))
        codes = rng.normal(size=(2, LENGTH)).astype(np.float32)
        new = [f"{self.name}, {self.made}{letter}" for letter in "ab"]
        kind = self.chance.choice(("add", "replace", "delete")) if self.confirmed else "add"
        if kind == "add":
            return Change(dict(zip(new, codes, strict=True)), [])
        old = self.chance.choice(sorted(self.confirmed))
        return Change({old: codes[0], new[1]: codes[1]}, []) if kind == "replace" else Change({}, [old])

    def _change(self, index: Any, change: Change) -> None:
        from eigenmap import EigenmapError

        touched = {*change.written, *change.deleted}
        before = {name: self.confirmed[name] for name in touched if name in self.confirmed}
        try:
            if change.deleted:
                index.delete(change.deleted)
            else:
                index.upsert(np.stack(list(change.written.values())), list(change.written))
        except EigenmapError as error:
            self._count("change refused", str(error))
            self.refused.append((change, before))
            for name in before:  # nothing is built on what is in doubt
                del self.confirmed[name]
            return
        self._count("change made")
        self.confirmed = {name: code for name, code in self.confirmed.items() if name not in touched} | change.written

    def compare(self) -> None:
        """Compare the table with what was confirmed, and look for changes that were made in part."""
        there = self._patiently(self._content)
        for change, before in self.refused:
            touched = {*change.written, *change.deleted}
            left = {name: there.pop(name) for name in touched if name in there}
            if not (_same(left, before) or _same(left, change.written)):
                self._fail(f"a refused change of {sorted(touched)} was made in part")
        if not _same(there, self.confirmed):
            self._fail(f"{len(there)} items are there, and {len(self.confirmed)} were confirmed, or codes differ")

    def _content(self) -> dict[str, Any]:
        with self._open() as index:
            mine = [str(name) for name in index.ids if str(name).startswith(f"{self.name},")]
            return dict(zip(mine, index.codes(mine), strict=True)) if mine else {}

    def _count(self, what: str, words: str = "") -> None:
        with self.lock:
            self.found.rounds += 1
            self.found.counts[what] += 1
            if "\n" in words:
                self.found.fail(f"{self.name}: more than one line: {words}")

    def _fail(self, what: str) -> None:
        with self.lock:
            self.found.fail(f"{self.name}: {what}")


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.allclose(one[name], other[name], atol=1e-5) for name in one)


if __name__ == "__main__":
    outcome.run("database", __doc__, 2000, experiment, restarts=21)
