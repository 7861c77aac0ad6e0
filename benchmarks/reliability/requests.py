"""Requests and uploads from many clients, while the index is replaced and clients misbehave.

    python -m benchmarks.reliability.requests --part 0 --rounds 2000 --uploads 400

`eigenmap serve` runs as a separate process. Besides the clients, one thread replaces the index by another (of the same
model, or of a model with another code length), one adds items to it, and others cut off requests or read answers
slowly. A part is one fifth of the experiment, with its own server, which gets SIGTERM while the faults continue. Every
answer must be described by the schema; a request without an answer before the signal is a failure; the server must end
within ten seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reliability import outcome
from benchmarks.reliability.clients import Asker, Client, Request, cut_off, read_slowly
from benchmarks.reliability.outcome import Outcome

ASKING = 8
MOST_SECONDS_TO_STOP = 10.0
COMMAND = (sys.executable, "-W", "error", "-c", "from eigenmap.cli import main; main()")


def experiment(given: argparse.Namespace, found: Outcome) -> None:
    with tempfile.TemporaryDirectory(prefix="requests") as name:
        indexes = make_indexes(Path(name))
        Load(Path(name), indexes, 100 * given.seed + given.part, found).run(given.rounds, given.uploads)


def make_indexes(folder: Path) -> list[Path]:
    """Create two indexes of one model and one of another."""
    from tests.end_to_end.photos import write_photos

    write_photos(folder / "PHOTOS", per_kind=20)
    write_photos(folder / "OTHERS", per_kind=20, seed=1)
    for name, length in (("first", 8), ("second", 6)):
        words = ("--steps", 20, "--batch-size", 16, "--image-size", 16, "--device", "cpu", "--quiet")
        _eigenmap("fit", "images", folder / "PHOTOS", "--out", folder / name, "-k", length, *words)
    made = []
    for number, (model, photos) in enumerate((("first", "PHOTOS"), ("first", "OTHERS"), ("second", "PHOTOS"))):
        made.append(folder / f"{number}.index")
        _eigenmap("index", folder / model, folder / photos, "--out", made[-1], "--quiet", "--device", "cpu")
    return made


def _eigenmap(*words: object) -> None:
    subprocess.run([*COMMAND, *map(str, words)], check=True)


class Load:
    """One server, its clients and its faults."""

    REPLACE_S, ADD_S = 1.0, 0.3
    """Mean pauses between two replacements of the index, and between two changes of it."""

    def __init__(self, folder: Path, indexes: list[Path], seed: int, found: Outcome) -> None:
        from eigenmap.search import CodeIndex
        from tests.service.pictures import FORMATS, encoded, mutants

        self.place, self.indexes, self.seed, self.found = folder / "served.index", indexes, seed, found
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(indexes[0], self.place)
        self.ids = [str(name) for name in CodeIndex.open(indexes[0]).ids]
        self.pictures = [*mutants(300, seed), *(encoded(kind, 30, 20, seed) for kind in FORMATS for _ in range(60))]
        self.lock, self.left = threading.Lock(), {"requests": 0, "uploads": 0}
        self.stopping = threading.Event()
        self.announced: dict[tuple[str, str], set[str]] = {}
        self.port = 0

    def run(self, requests: int, uploads: int) -> None:
        self.left = {"requests": requests, "uploads": uploads}
        with self._server() as process:
            self._read_schema()
            askers = [threading.Thread(target=self._ask, args=(number,)) for number in range(ASKING)]
            others = [
                threading.Thread(target=self._repeat, args=(number, fault, pause))
                for number, (fault, pause) in enumerate(
                    (
                        (self._replace, self.REPLACE_S),
                        (self._add, self.ADD_S),
                        (self._cut_off, 0.1),
                        (self._read_slowly, 0.1),
                        (self._read_slowly, 0.1),
                    )
                )
            ]
            for thread in (*askers, *others):
                thread.start()
            for thread in askers:
                thread.join()
            half_sent = self._half_sent()
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            self._stopped(process, began)
            self.stopping.set()
            half_sent.close()
            for thread in others:
                thread.join()

    def _stopped(self, process: subprocess.Popen[str], began: float) -> None:
        try:
            _, err = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.found.fail("the server did not end within 60 s of SIGTERM")
            return
        seconds = time.perf_counter() - began
        self.found.measured.setdefault("seconds_to_stop", []).append(round(seconds, 2))
        if seconds > MOST_SECONDS_TO_STOP:
            self.found.fail(f"the server ended {seconds:.1f} s after SIGTERM")
        if "Traceback" in err:
            self.found.fail(f"the server printed a traceback: {err[-600:]}")

    @contextmanager
    def _server(self) -> Iterator[subprocess.Popen[str]]:
        with self._started([*COMMAND, "serve", str(self.place), "--port", "0", "--quiet"]) as process:
            yield process

    @contextmanager
    def _started(self, words: list[str], further: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[str]]:
        """Start a server; `further` are variables of its environment."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(words, **pipes, text=True, env={**os.environ, **further}) as process:
            try:
                assert process.stdout is not None
                self.port = int(process.stdout.readline().strip().rstrip("/").rsplit(":", 1)[1])
                yield process
            finally:
                process.kill()

    def _read_schema(self) -> None:
        _, body = Client(self.port).ask(Request("GET", "/openapi.json", ""))
        for path, operations in json.loads(body)["paths"].items():
            for method, operation in operations.items():
                self.announced[method.upper(), path] = set(operation["responses"])

    def _take(self, asker: Asker) -> Request | None:
        """Return the next request to send, or None if all were sent."""
        with self.lock:
            kinds = [kind for kind, left in self.left.items() if left > 0]
            if not kinds:
                return None
            kind = asker.chance.choices(kinds, [self.left[kind] for kind in kinds])[0]
            self.left[kind] -= 1
            self.found.counts[kind] += 1
        return asker.request() if kind == "requests" else asker.upload()

    def _ask(self, number: int) -> None:
        asker, client = Asker(1000 * self.seed + number, self.ids, self.pictures), Client(self.port)
        while (request := self._take(asker)) is not None:
            try:
                status, body = client.ask(request)
            except (OSError, http.client.HTTPException) as error:
                client.close()
                self._note(f"{request.method} {request.path[:80]}: no answer ({error!r})")
                continue
            self._check(request, status, body)
        client.close()

    def _check(self, request: Request, status: int, body: bytes) -> None:
        with self.lock:
            self.found.rounds += 1
            self.found.counts[f"status {status}"] += 1
        known = self.announced.get((request.method, request.operation), set())
        # A path with odd characters may not exist, which a schema need not describe.
        if str(status) not in known and not (status == 404 and "{" in request.operation):
            self._note(f"{request.method} {request.path[:80]}: {status}, which is not announced: {body[:200]!r}")

    def _note(self, what: str) -> None:
        with self.lock:
            self.found.fail(what)

    # Faults

    def _repeat(self, number: int, fault: Callable[[random.Random], object], pause: float) -> None:
        """Repeat a fault, `pause` seconds apart on average."""
        chance = random.Random(1000 * self.seed + 500 + number)
        while not self.stopping.is_set():
            with suppress(ConnectionError, TimeoutError):  # the server is gone, or full
                fault(chance)
                with self.lock:
                    self.found.counts[fault.__name__.strip("_").replace("_", " ")] += 1
            self.stopping.wait(chance.uniform(0, 2 * pause))

    def _replace(self, chance: random.Random) -> None:
        from eigenmap.core.folders import staged_folder

        with staged_folder(self.place, replace=True) as staging:
            shutil.copytree(chance.choice(self.indexes), staging, dirs_exist_ok=True)

    def _add(self, chance: random.Random) -> None:
        from eigenmap import EigenmapError
        from eigenmap.search import CodeIndex

        with suppress(EigenmapError):  # it may have been replaced by one of another length
            index = CodeIndex.open(self.place)
            rows: Any = np.random.default_rng(chance.randrange(1000)).normal(size=(3, index.n_components))
            index.upsert(rows, [f"new {chance.randrange(100)}-{i}" for i in range(3)])

    def _cut_off(self, chance: random.Random) -> None:
        asker = Asker(chance.randrange(2**32), self.ids, self.pictures)
        cut_off(self.port, asker.upload() if chance.random() < 0.5 else asker.request(), chance)

    def _read_slowly(self, chance: random.Random) -> None:
        read_slowly(self.port, Request("GET", "/api/features?pictures=true&count=64", ""), chance.uniform(0.5, 4))

    def _half_sent(self) -> Any:
        """An upload whose second half never comes."""
        import socket

        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.sendall(
            b"POST /api/search/image HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n" + b"x" * 50
        )
        return connection


if __name__ == "__main__":
    outcome.run("requests", __doc__, 2000, experiment, uploads=400, part=0)
