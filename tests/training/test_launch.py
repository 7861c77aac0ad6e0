from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from eigenmap.core.batch import Batch
from eigenmap.core.devices import float32_products
from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training import TrainingConfig, launch, loop, start, time_budget, train
from tests.training.toys import ToyNetwork, ToyRelation, held_out

ROOT = Path(__file__).parents[2]


def run(out: Path, accumulate: int = 1, objective: str = "nested") -> None:
    """Program of each process; the first one writes losses and weights to `out`."""
    config = TrainingConfig(
        steps=6, lr=1e-2, clip_norm=0.5, accumulate=accumulate, log_every=1, check_every=3, accelerator="cpu"
    )
    fabric = start(config)
    network = ToyNetwork(
        norm=False, dropout=0, seed=fabric.global_rank
    ).double()  # DDP starts with the weights of the first
    relation = ToyRelation(fabric.global_rank, fabric.world_size, torch.float64)
    held = [tuple(view.double() for view in held_out()[0][:2])]
    result = train(
        network,
        relation,
        build(objective),
        config,
        out=out,
        fabric=fabric,
        held_out=held[0],
        monitor=lambda *_: {"a": 1},
    )
    assert [record["step"] for record in result.history] == [1, 2, 3, 4, 5, 6]
    assert "monitor" in result.history[-1]  # on every process
    if fabric.is_global_zero:
        weights = {name: value.tolist() for name, value in network.state_dict().items()}
        losses = [record["loss"] for record in result.history]
        (out / "result.json").write_text(json.dumps({"losses": losses, "weights": weights, "world": fabric.world_size}))


def averages_agree() -> None:
    """On CPUs, BatchNorm sees only the rows of its process, but all processes end with the same network."""
    config = TrainingConfig(steps=3, accelerator="cpu")
    fabric = start(config)
    network = ToyNetwork(norm=True, dropout=0)
    train(network, ToyRelation(fabric.global_rank, fabric.world_size), build("nested"), config, fabric=fabric)
    mine = torch.cat([buffer.double().flatten() for buffer in network.buffers()])
    theirs = [torch.empty_like(mine) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(theirs, mine)
    assert len(mine) > 1 and all(torch.equal(other, mine) for other in theirs)


PROCESS = """
import sys
from pathlib import Path
from tests.training.test_launch import averages_agree, run
for chunks in (1, 2):
    run(Path(sys.argv[1]) / f"two-{chunks}", accumulate=chunks)
for objective in ("swav", "moco", "byol", "simsiam"):
    run(Path(sys.argv[1]) / f"two-{objective}", objective=objective)
averages_agree()
"""


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    run(tmp_path / "one")
    one = json.loads((tmp_path / "one" / "result.json").read_text())
    (tmp_path / "process.py").write_text(PROCESS)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    environment["TMPDIR"] = str(tmp_path)  # torchrun leaves its logs there
    done = subprocess.run(
        [*torchrun, tmp_path / "process.py", tmp_path], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for chunks in (1, 2):
        assert_same(tmp_path / f"two-{chunks}", one, rtol=1e-8)
    for objective in ("swav", "moco", "byol", "simsiam"):  # their own parameters are float32
        run(tmp_path / objective, objective=objective)
        alone = json.loads((tmp_path / objective / "result.json").read_text())
        assert_same(tmp_path / f"two-{objective}", alone, rtol=1e-4)


def assert_same(folder: Path, one: dict[str, Any], rtol: float) -> None:
    two = json.loads((folder / "result.json").read_text())
    assert (one["world"], two["world"]) == (1, 2)
    assert two["losses"] == pytest.approx(one["losses"], rel=rtol / 100)
    for name, weight in one["weights"].items():
        torch.testing.assert_close(torch.tensor(two["weights"][name]), torch.tensor(weight), rtol=rtol, atol=rtol / 100)


def test_a_device_that_is_not_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(EigenmapError, match="GPU"):
        start(TrainingConfig(steps=1, accelerator="cuda"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(EigenmapError, match=r"4 devices.*1"):
        start(TrainingConfig(steps=1, accelerator="cuda", devices=4))


def test_fabric_is_found_inside_lightning_or_reported_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import lightning_fabric

    installed = {"lightning"}
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: True if name in installed else None)
    monkeypatch.setitem(sys.modules, "lightning", lightning_fabric)
    monkeypatch.setitem(sys.modules, "lightning.fabric", lightning_fabric)
    assert launch._fabric_class() is lightning_fabric.Fabric
    installed.clear()
    with pytest.raises(EigenmapError, match="pip install lightning-fabric"):
        launch._fabric_class()


def test_importing_training_does_not_import_fabric() -> None:
    code = "import sys, eigenmap.training; sys.exit(any('lightning' in name or name == 'rich' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_compiling_pays_on_a_gpu_with_a_compiler_and_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    many, few = launch.STEPS_THAT_PAY, launch.STEPS_THAT_PAY - 1
    assert not launch.pays_to_compile("cpu", many)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert launch.pays_to_compile("auto", many) and launch.pays_to_compile("cuda", many)
    assert not launch.pays_to_compile("cpu", many)
    assert not launch.pays_to_compile("auto", few)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert not launch.pays_to_compile("auto", many)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not launch.pays_to_compile("auto", many)


@pytest.mark.parametrize("together", [True, False])
def test_processes_wait_for_each_other_before_they_exit(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[int] = []
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: together)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: left.append(1))
    launch.leave()
    assert len(left) == together


def test_machines_are_those_of_torchrun_or_those_that_were_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def machines(**settings: int) -> tuple[int, int]:
        return launch.machines(TrainingConfig(steps=1, **settings))

    for name in ("MASTER_ADDR", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert machines(devices=4) == (1, 4)
    with pytest.raises(EigenmapError, match=r"2 nodes.*MASTER_ADDR.*torchrun --nnodes 2 --nproc-per-node 3"):
        machines(devices=3, nodes=2)
    monkeypatch.setenv("MASTER_ADDR", "first")
    monkeypatch.setenv("NODE_RANK", "1")
    assert machines(devices=3, nodes=2) == (2, 3)

    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    monkeypatch.setenv("WORLD_SIZE", "32")
    assert machines() == machines(devices=8, nodes=4) == (4, 8)
    with pytest.raises(EigenmapError, match=r"2 nodes of 8 devices.*torchrun started 8 processes on 4"):
        machines(devices=8, nodes=2)


LOST = (
    "[gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]: Connection reset by peer",
    "[gloo/transport/tcp/pair.cc:525] Connection closed by peer [127.0.0.1]:20211",
    "[gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
    "Application timeout caused pair closure",
    "Connection was likely closed. Did the remote server shutdown or crash?",
    "failed to recv, got 0 bytes",
    "NCCL error: ncclRemoteError: A call failed possibly due to a remote process exiting prematurely",
)
NOT_LOST = (
    "shapes differ",
    "[enforce fail at gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 256 vs 128",  # shapes differ
    "[enforce fail at gloo/transport/tcp/device.cc:84] ifa != nullptr. Unable to find interface for: eth9",
    "NCCL error: ncclInvalidUsage: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",
    "NCCL error: ncclUnhandledCudaError: Call to CUDA function failed: 'out of memory'",
)


@pytest.mark.parametrize("words", LOST)
def test_the_loss_of_another_process_is_named(words: str) -> None:
    """Of old it was a traceback of gloo."""
    with pytest.raises(EigenmapError, match=r"another process.*lost.*resume=True"), launch.lost_process_named(2):
        raise RuntimeError(words)
    with pytest.raises(RuntimeError, match="^" + re.escape(words)), launch.lost_process_named(1):  # there was no other
        raise RuntimeError(words)


@pytest.mark.parametrize("words", NOT_LOST)
def test_other_errors_between_processes_keep_their_words(words: str) -> None:
    """Of old every error that named gloo or NCCL was blamed on a lost process."""
    with pytest.raises(RuntimeError, match="^" + re.escape(words)), launch.lost_process_named(2):
        raise RuntimeError(words)


class OnGpu:
    """A Fabric that says it is on a GPU, without one."""

    world_size, device = 1, torch.device("cuda")

    def __init__(self, **_: object) -> None: ...

    def launch(self) -> None: ...


def test_a_run_on_a_gpu_leaves_the_arithmetic_of_the_process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of old, products stayed in TensorFloat-32, and a model just trained gave other codes than the same one loaded."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(launch, "_fabric_class", lambda: OnGpu)

    def arithmetic() -> tuple[str, bool]:
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.benchmark

    with float32_products("highest"):
        before = arithmetic()
        fabric = start(TrainingConfig(steps=1, accelerator="cuda"))
        assert arithmetic() == before == ("highest", False)
        with pytest.raises(KeyboardInterrupt), launch.fast_arithmetic(fabric.device):
            assert arithmetic() == ("high", True)
            raise KeyboardInterrupt
        assert arithmetic() == before


def test_the_loop_and_the_measurement_of_a_step_use_the_arithmetic_of_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[str] = []
    real = launch.fast_arithmetic
    for module in (loop, time_budget):
        monkeypatch.setattr(module, "fast_arithmetic", lambda _: real(torch.device("cuda")))

    class Seeing(ToyRelation):
        def batch(self, step: int) -> Batch:
            seen.append(torch.get_float32_matmul_precision())
            return super().batch(step)

    config = TrainingConfig(steps=2, accelerator="cpu")
    with float32_products("highest"):
        train(ToyNetwork(), Seeing(), build("nested"), config)
        time_budget.measure_step(ToyNetwork(), Seeing(), build("nested"), config, steps=1, warmup=1)
        assert set(seen) == {"high"} and torch.get_float32_matmul_precision() == "highest"
