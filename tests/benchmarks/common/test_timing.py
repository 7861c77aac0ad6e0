"""Seconds and memory, against what is known of them."""

from __future__ import annotations

import os

import pytest
import torch

from benchmarks.common import timing


def test_calls_are_counted_apart_from_those_that_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    steps: list[int] = []

    def work(step: int = 0) -> None:
        steps.append(step)
        now[0] += 100.0 if len(steps) <= 2 else 3.0

    assert timing.mean_seconds(work, "cpu", repeat=4, warmup=2) == 3.0
    assert steps == [0, 1, 2, 3, 4, 5]


def test_the_median_leaves_the_first_of_several_out(monkeypatch: pytest.MonkeyPatch) -> None:
    now, taken = [0.0], iter([100.0, 1.0, 9.0, 2.0, 7.0])
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def work() -> None:
        now[0] += next(taken)

    assert timing.median_seconds(work, "cpu", 3) == 2.0
    assert timing.median_seconds(work, "cpu", 1) == 7.0


def test_a_clock_on_a_cpu_has_no_peak() -> None:
    clock = timing.Clock(torch.device("cpu"))
    assert clock.seconds() >= 0 and clock.peak_gb() is None


def test_memory_is_that_of_the_process() -> None:
    before = timing.status_bytes("RssAnon")
    held = bytearray(64 << 20)
    held[:: 1 << 12] = b"x" * (len(held) >> 12)
    assert 60 << 20 < timing.status_bytes("RssAnon") - before < 80 << 20
    assert timing.status_bytes("VmRSS", os.getpid()) <= timing.status_bytes("VmHWM") <= 1.1 * 2**20 * timing.peak_mb()
    assert timing.status_bytes("NoSuchField") == 0
