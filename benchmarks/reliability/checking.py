"""Checks after a fault: the remaining content, and the result of repeating the command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.reliability.children import Ended, computed, eigenmap
from benchmarks.reliability.commands import Command, Content, commands, make_inputs

PATIENCE_S = 20
"""Seconds that a database may take to recover before it is started again."""


class Bench:
    """A command with its inputs, and its expected result."""

    def __init__(self, command: Command, inputs: Path, place: Path) -> None:
        self.command, self.inputs, self.place = command, inputs, place
        self.words = command.words(inputs, place)
        self.prepare()
        self.before = self.content()
        ended = eigenmap(*self.words)
        if ended.code != 0:
            raise RuntimeError(f"{command.name}, undisturbed, ended with {ended.code}: {ended.err}")
        self.wanted = self.content()
        if self.wanted == self.before or not self.wanted:
            raise RuntimeError(f"{command.name} changes nothing")

    def prepare(self) -> None:
        """Restore the state before the command."""
        self.command.prepare(self.inputs, self.place)

    def content(self) -> Content:
        """Return the content as a reader sees it; raise RuntimeError if something is incomplete."""
        found: Content = computed(lambda: self.command.whole(self.place))
        return found

    def faults(self) -> Iterator[str]:
        """Check the remaining content, repeat the command, and yield everything that is wrong."""
        try:
            left = self.content()
        except RuntimeError as error:
            yield f"torn: {_last_line(str(error))}"
            left = {}
        if left not in (self.before, self.wanted):
            yield f"neither the old nor the new content: {_difference(left, self.wanted)}"
        if left == self.wanted and not self.command.repeatable:
            return
        again = eigenmap(*self.words, *self.command.again)
        was_complete = left == self.wanted and again.is_refusal and "exists" in again.err
        if again.code != 0 and not was_complete:
            yield f"the same command ended with {again.code}: {_last_line(again.err)}"
            return
        try:
            found = self.content()
        except RuntimeError as error:
            yield f"torn after the same command: {_last_line(str(error))}"
            return
        if found != self.wanted:
            yield f"another result by the same command: {_difference(found, self.wanted)}"
        if hidden := self.hidden():
            yield f"left behind: {', '.join(hidden)}"

    def hidden(self) -> list[str]:
        """Names of leftovers: everything whose name begins with a dot."""
        return sorted(str(path.relative_to(self.place)) for path in self.place.rglob(".*"))


def said(ended: Ended) -> str:
    """Return the last line of a command's output."""
    return _last_line(ended.err)


def _last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "nothing was said"


def _difference(found: Content, wanted: Content) -> str:
    names = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
    return f"{len(names)} parts differ, such as {', '.join(names[:3])}"


@contextmanager
def bench(name: str, folder: Path, place: Path | None = None) -> Iterator[Bench]:
    """Yield the bench of a command by name, with its output at `place`; a database gets its own server, there."""
    inputs = folder / "inputs"
    make_inputs(inputs)
    if not commands()[name].database:
        yield Bench(commands()[name], inputs, place or folder / "place")
        return
    from tests.database import crash, running_server

    data = folder / "data" if place is None else place
    with ExitStack() as servers:
        server = servers.enter_context(running_server(data))
        url = server.replace("/postgres?", "/test?")
        again = partial(_begin, servers, data)
        yield DatabaseBench(commands(url)[name], inputs, folder / "outputs", server, again)
        crash(data)  # the helpers of earlier starts would leave it running


def _begin(servers: ExitStack, data: Path) -> None:
    from tests.database import running_server

    servers.enter_context(running_server(data))


class DatabaseBench(Bench):
    """A bench of a command that writes to a database."""

    BUSY = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'test'"

    def __init__(self, command: Command, inputs: Path, place: Path, server: str, again: Callable[[], None]) -> None:
        self.server, self.again = server, again
        super().__init__(command, inputs, place)

    def prepare(self) -> None:
        super().prepare()
        self._rows("DROP DATABASE IF EXISTS test WITH (FORCE)")
        self._rows("CREATE DATABASE test")
        self._rows("CHECKPOINT")

    def content(self) -> Content:
        while self._rows(self.BUSY) != [(0,)]:  # until the server has noticed that its client is gone
            time.sleep(0.01)
        return super().content()

    def _rows(self, statement: str) -> list[Any]:
        """Return what a statement returns; a server that recovers is waited for, and one that gave up is started."""
        import psycopg

        from tests.database import rows

        for _ in range(PATIENCE_S):
            with suppress(psycopg.OperationalError):
                return rows(self.server, statement)
            time.sleep(1)
        self.again()
        return rows(self.server, statement)
