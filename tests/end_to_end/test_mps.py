"""`device="mps"`: training on Apple's GPU, which has no float64. Nobody tried it on a Mac; a stand-in takes its place.

The stand-in raises on float64 and on operands of two devices. Whether every operation exists for Apple's GPUs, and what
speed it has there, only a Mac can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import eigenmap as em
from eigenmap.core.errors import EigenmapError
from eigenmap.training import TrainingConfig
from eigenmap.training.launch import start
from tests.pretend_mps import PretendMps

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 255, size=(80, 16, 16), dtype=np.uint8)
VECTORS = RNG.normal(size=(80, 6))


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendMps]:
    from lightning_fabric.accelerators.mps import MPSAccelerator

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(MPSAccelerator, "is_available", staticmethod(lambda: True))
    monkeypatch.setattr(torch.mps, "synchronize", lambda: None)
    with PretendMps() as mode:
        yield mode


def check(model: em.Eigenmap, device: PretendMps) -> None:
    """The network was trained on the device, and its features were ordered on the CPU."""
    assert {"linear", "addmm", "conv2d"} & device.operations
    assert any("adam" in name.lower() or name in ("addcdiv_", "_foreach_addcdiv_") for name in device.operations)
    assert model.training["device"].startswith("mps")
    assert model.device.type == "cpu"
    assert np.isfinite(model.eigenvalues_).all()


@pytest.mark.parametrize("objective", ["nested", "ritz-trace", "neuralef"])
def test_images(device: PretendMps, objective: str, tmp_path: Path) -> None:
    model = em.fit_images(
        IMAGES,
        n_components=4,
        steps=3,
        batch_size=16,
        objective=objective,
        device="mps",
        progress=False,
        out=tmp_path / "run",
    )
    check(model, device)
    codes = model.encode(IMAGES[:5])
    assert np.allclose(model.encode(IMAGES[:5], device="mps"), codes, atol=1e-3)


def test_a_graph(device: PretendMps) -> None:
    edges = RNG.integers(80, size=(2, 400))
    model = em.fit_graph(
        (VECTORS, edges), n_components=3, steps=3, batch_size=32, width=8, device="mps", progress=False
    )
    check(model, device)


def test_vectors(device: PretendMps) -> None:
    pairs = VECTORS + 0.1 * RNG.normal(size=VECTORS.shape)
    model = em.fit_vectors(VECTORS, 3, pairs=pairs, solver="neural", steps=3, width=8, device="mps", progress=False)
    check(model, device)


def test_towers(device: PretendMps) -> None:
    model = em.fit_towers(IMAGES, VECTORS, 3, steps=2, batch_size=16, width=8, device="mps", progress=False)
    check(model, device)


def test_minutes_and_several_devices(device: PretendMps) -> None:
    model = em.fit_images(IMAGES, n_components=4, minutes=0.02, batch_size=16, device="mps", progress=False)
    check(model, device)
    with pytest.raises(EigenmapError, match=r"mps.*2"):
        start(TrainingConfig(steps=1, accelerator="mps", devices=2))


def test_kernels_need_float64(device: PretendMps) -> None:
    with pytest.raises(EigenmapError, match=r"mps.*cpu"):
        em.NeuralEigenmap(2, device="mps").fit(VECTORS)


def test_without_an_apple_gpu_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(EigenmapError, match=r"mps.*Apple"):
        em.fit_images(IMAGES, n_components=4, steps=2, batch_size=16, device="mps", progress=False)
