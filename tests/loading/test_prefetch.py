"""The order of things, with a stream that only takes notes; on a GPU `benchmarks/vision/gpu_check.py` compares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from eigenmap.core.batch import Batch
from eigenmap.loading.prefetch import Prefetcher


class Stream:
    device = torch.device("cpu")

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name, self.notes = name, notes

    def wait_stream(self, other: Stream) -> None:
        self.notes.append(f"{self.name} waits for {other.name}")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Where the streams and `make` write down what happens."""
    notes: list[str] = []
    using = [Stream("first", notes)]

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        using.append(stream)
        yield
        using.pop()

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("second", notes))
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: using[-1])
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: notes.append(f"kept for {stream.name}"))
    return notes


def ahead(notes: list[str]) -> Prefetcher:
    def make(step: int) -> Batch:
        notes.append(f"{step} on {torch.cuda.current_stream(torch.device('cpu')).name}")  # type: ignore[attr-defined]
        return Batch(torch.tensor([step]), torch.tensor([-step]))

    return Prefetcher(make, torch.device("cpu"))


def test_batches_are_those_of_their_step_in_any_order(notes: list[str]) -> None:
    batches = ahead(notes)
    for step in (0, 1, 2, 7, 8, 3, 3, 4):
        batch = batches(step)
        assert (int(batch.x), int(batch.x_plus)) == (step, -step)


def test_the_following_step_is_begun_on_the_second_stream_and_waited_for(notes: list[str]) -> None:
    batches = ahead(notes)
    batches(5)
    assert notes == ["first waits for second", "5 on first", "second waits for first", "6 on second"]
    notes.clear()
    batches(6)
    assert notes == ["first waits for second", "kept for first", "kept for first", "7 on second"]


def test_what_was_begun_in_vain_is_made_anew(notes: list[str]) -> None:
    batches = ahead(notes)
    batches(5)
    notes.clear()
    batches(9)
    assert notes == ["first waits for second", "9 on first", "second waits for first", "10 on second"]
