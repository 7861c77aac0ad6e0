from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eigenmap.core.errors import EigenmapError
from eigenmap.objectives import build
from eigenmap.training import CollapseError, DivergedError, TrainingConfig, TrainingResult, loop, start, train
from eigenmap.training.metrics import read
from tests.training.toys import BATCH, FEATURES, ToyNetwork, ToyRelation, held_out

ROOT = Path(__file__).parents[2]
CONFIG = TrainingConfig(
    steps=24, lr=1e-2, warmup_steps=4, clip_norm=1.0, log_every=4, check_every=8, checkpoint_every=10, accelerator="cpu"
)
CLOCK = {"seconds", "images_per_second"}


def run(config: TrainingConfig = CONFIG, **options: Any) -> tuple[TrainingResult, dict[str, Tensor]]:
    network = ToyNetwork()
    result = train(network, ToyRelation(), build("nested"), config, held_out=held_out, **options)
    return result, network.state_dict()


def change(config: TrainingConfig, **settings: Any) -> TrainingConfig:
    return TrainingConfig(**{**vars(config), **settings})


def without_clock(history: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name not in CLOCK} for record in history]


def assert_same_weights(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert list(a) == list(b)
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "lars"])
def test_same_seed_gives_the_same_metrics_and_weights(optimizer: str) -> None:
    config = change(CONFIG, optimizer=optimizer)
    (one, weights_one), (two, weights_two) = run(config), run(config)
    assert without_clock(one.history) == without_clock(two.history)
    assert_same_weights(weights_one, weights_two)
    _, other = run(change(config, seed=1))  # another seed draws other dropout masks
    assert not torch.equal(other["projector.weight"], weights_one["projector.weight"])


def test_training_lowers_the_loss_and_leaves_the_network_ready_for_use() -> None:
    network = ToyNetwork()
    result = train(network, ToyRelation(), build("nested"), change(CONFIG, steps=200, warmup_steps=10))
    assert result.steps == 200
    assert result.history[-1]["loss"] < result.history[0]["loss"] - 0.1
    assert not network.training


def test_history_has_what_was_measured_at_each_record() -> None:
    result, _ = run(monitor=lambda network, step: {"trains": float(network.training), "undefined": float("nan")})
    assert [record["step"] for record in result.history] == [4, 8, 10, 12, 16, 20, 24]
    for record in result.history:
        assert record["gradient_norm"] > 0 and record["images_per_second"] > 0
        assert ("effective_rank" in record) == (record["step"] in (8, 16, 24))
    check = result.history[-1]
    assert check["monitor"] == {"trains": 0.0, "undefined": None}
    assert 1 < check["effective_rank"] <= FEATURES == len(check["eigenvalues"]) == check["n_components"]
    assert result.seconds >= check["seconds"] > 0


def test_checks_do_not_change_the_training() -> None:
    _, checked = run(change(CONFIG, check_every=1), monitor=lambda network, step: {"draw": float(torch.rand(()))})
    network = ToyNetwork()
    train(network, ToyRelation(), build("nested"), CONFIG)
    assert_same_weights(checked, network.state_dict())


def test_one_step_is_one_forward_pass_over_both_views_and_one_plain_gradient_step() -> None:
    """The whole loop against a few lines of torch."""
    sizes: list[int] = []
    network, twin = ToyNetwork(dropout=0), ToyNetwork(dropout=0)
    network.register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    config = TrainingConfig(steps=1, optimizer="sgd", lr=0.1, weight_decay=0.0, clip_norm=0.05, accelerator="cpu")
    result = train(network, ToyRelation(), build("scl"), config)

    x, x_plus, _ = ToyRelation().batch(0)
    _, psi = twin(torch.cat([x, x_plus]))
    loss = build("scl")(psi[:BATCH], psi[BATCH:])
    loss.backward()
    norm = torch.stack([p.grad.square().sum() for p in twin.parameters()]).sum().sqrt()
    assert norm > 0.05
    with torch.no_grad():
        for p in twin.parameters():
            p -= 0.1 * p.grad * 0.05 / norm
    assert sizes == [2 * BATCH]
    assert result.history[0]["loss"] == pytest.approx(loss.item())
    assert result.history[0]["gradient_norm"] == pytest.approx(norm.item())
    for a, b in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


class CroppedRelation(ToyRelation):
    """Two further, noisier copies of every point."""

    def crops(self, step: int) -> torch.Tensor:
        x = self.batch(step).x
        return torch.stack(
            [x + noise for noise in torch.randn(2, *x.shape, generator=torch.Generator().manual_seed(7))]
        )


def test_small_crops_are_compared_with_both_views() -> None:
    network, twin = ToyNetwork(dropout=0), ToyNetwork(dropout=0)
    config = TrainingConfig(steps=1, optimizer="sgd", lr=0.1, weight_decay=0.0, crops=2, accelerator="cpu")
    result = train(network, CroppedRelation(), build("scl"), config)

    x, x_plus, _ = ToyRelation().batch(0)
    _, psi = twin(torch.cat([x, x_plus]))
    _, of_crops = twin(CroppedRelation().crops(0).flatten(0, 1))
    scl, views = build("scl"), psi.chunk(2)
    losses = [scl(*views), *(scl(crop, view) for crop in of_crops.chunk(2) for view in views)]
    loss = sum(losses) / 5
    loss.backward()
    with torch.no_grad():
        for p in twin.parameters():
            p -= 0.1 * p.grad
    assert result.history[0]["loss"] == pytest.approx(loss.item())
    for a, b in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("relation", "objective", "words"),
    [
        (ToyRelation(), "scl", "ToyRelation has no small crops"),
        (CroppedRelation(), "byol", "BYOL has state of its own"),
    ],
)
def test_small_crops_that_cannot_be_used_are_refused(relation: ToyRelation, objective: str, words: str) -> None:
    config = TrainingConfig(steps=1, crops=2, accelerator="cpu")
    with pytest.raises(EigenmapError, match=f"^crops is 2, but {words}"):
        train(ToyNetwork(), relation, build(objective), config)


@pytest.mark.parametrize("name", ["clip_relative", "decay"])
def test_relative_clipping_and_other_decays_reach_the_step(name: str) -> None:
    used = {"clip_relative": 1e-4} if name == "clip_relative" else {"decay": "linear"}
    networks = [ToyNetwork(dropout=0), ToyNetwork(dropout=0)]
    for network, settings in zip(networks, ({}, used), strict=True):
        config = TrainingConfig(steps=3, optimizer="sgd", lr=0.1, accelerator="cpu", **settings)
        train(network, ToyRelation(), build("scl"), config)
    start = ToyNetwork(dropout=0).projector.weight
    plain, other = ((network.projector.weight - start).detach() for network in networks)
    assert not torch.equal(plain, other)
    if name == "clip_relative":
        assert float(other.norm()) < 0.01 * float(plain.norm())


def test_a_clip_norm_of_zero_clips_nothing() -> None:
    """A number can switch off a recipe's clipping."""
    networks = [ToyNetwork(dropout=0), ToyNetwork(dropout=0)]
    for network, clip_norm in zip(networks, (0.0, None), strict=True):
        config = TrainingConfig(steps=2, optimizer="sgd", lr=0.1, clip_norm=clip_norm, accelerator="cpu")
        train(network, ToyRelation(), build("scl"), config)
    for a, b in zip(*(network.parameters() for network in networks), strict=True):
        assert torch.equal(a, b)


KILLED = """
import os, signal, sys
from tests.training import test_loop
from tests.training.toys import ToyRelation

class Fatal(ToyRelation):
    def batch(self, step):
        if step == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().batch(step)

test_loop.ToyRelation = Fatal
test_loop.run(out=sys.argv[1])
"""


@pytest.mark.slow
def test_killed_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path / "killed"], cwd=ROOT, env=environment)
    assert killed.returncode == -signal.SIGKILL
    assert [record["step"] for record in read(tmp_path / "killed" / "metrics.jsonl")] == [4, 8, 10, 12, 16]
    resumed, weights = run(out=tmp_path / "killed", resume=True)  # from the checkpoint after 10 steps
    whole, expected = run(out=tmp_path / "whole")
    assert_same_weights(weights, expected)
    assert without_clock(resumed.history) == without_clock(whole.history)
    lines = (tmp_path / "killed" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 10, 12, 16, 20, 24]
    assert resumed.history[-1]["seconds"] > resumed.history[0]["seconds"]


def test_resume_without_a_checkpoint_starts_and_after_the_end_does_nothing(tmp_path: Path) -> None:
    first, weights = run(out=tmp_path, resume=True)
    network = ToyNetwork(seed=5)
    again = train(network, ToyRelation(), build("nested"), CONFIG, out=tmp_path, resume=True)
    assert_same_weights(weights, network.state_dict())
    assert again.history == first.history and again.steps == 24
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "metrics.jsonl"]


def test_a_new_run_in_an_old_folder_does_not_leave_the_old_checkpoint(tmp_path: Path) -> None:
    run(out=tmp_path)
    with pytest.raises(DivergedError):
        train(ToyNetwork(), ToyRelation(), Broken(at=2), CONFIG, out=tmp_path)
    assert not (tmp_path / "checkpoint.pt").exists()
    assert read(tmp_path / "metrics.jsonl") == []


def test_resume_with_other_settings_names_them(tmp_path: Path) -> None:
    run(out=tmp_path, settings={"objective": "nested"})
    with pytest.raises(EigenmapError, match=r"lr .*0\.01.*0\.02.*objective .*'nested'.*'scl'"):
        run(change(CONFIG, lr=0.02), out=tmp_path, resume=True, settings={"objective": "scl"})
    run(change(CONFIG, check_every=3), out=tmp_path, resume=True, settings={"objective": "nested"})  # bookkeeping


def test_resume_with_another_network_says_so(tmp_path: Path) -> None:
    run(out=tmp_path)
    with pytest.raises(EigenmapError, match="another network"):
        train(ToyNetwork(n_components=5), ToyRelation(), build("nested"), CONFIG, out=tmp_path, resume=True)


def test_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match="file"):
        run(out=tmp_path / "file" / "run")


class Broken(nn.Module):
    """Objective whose loss becomes infinite at one step."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.calls, self.at = 0, at

    def forward(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Tensor:
        self.calls += 1
        return (psi * psi_plus).mean() / (0.0 if self.calls == self.at else 1.0)


def test_a_loss_that_is_not_finite_stops_the_run_before_its_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(DivergedError, match=r"diverged.*step 20.*(nan|-?inf).*lr=0\.001.*clip_norm=0\.1"):
        train(ToyNetwork(), ToyRelation(), Broken(at=18), CONFIG, out=tmp_path)
    steps = [record["step"] for record in read(tmp_path / "metrics.jsonl")]
    assert steps == [4, 8, 10, 12, 16]


class Collapsing(nn.Module):
    """Objective that pulls all features towards the first one."""

    def forward(self, psi: Tensor, psi_plus: Tensor, kernel: Tensor | None = None) -> Tensor:
        return (psi - psi[:, :1].detach()).square().mean()


@pytest.mark.slow
def test_a_collapse_stops_the_run_and_says_what_to_try() -> None:
    config = TrainingConfig(steps=2000, lr=0.05, warmup_steps=10, check_every=50, accelerator="cpu")
    with pytest.raises(CollapseError) as caught:
        train(ToyNetwork(n_components=32), ToyRelation(), Collapsing(), config, held_out=held_out)
    message = str(caught.value)
    assert re.search(r"rank.*1\.0", message) and "of 32 features" in message and "3 checks" in message
    assert "gradients" in message
    assert re.search(r"lr=0\.017.*clip_norm=1", message)
    clipped = change(config, clip_norm=1.0)
    with pytest.raises(CollapseError, match=r"lr=0\.017.*warmup=0\.[0-9]+"):
        train(ToyNetwork(n_components=32), ToyRelation(), Collapsing(), clipped, held_out=held_out)


@pytest.mark.slow
def test_compiled_channels_last_and_mixed_precision_give_the_same_network_with_plain_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled: list[nn.Module] = []
    inductor = torch.compile

    def traced(network: nn.Module, backend: str = "eager", mode: str = "default", dynamic: bool = False) -> Any:
        assert mode == "default" and not dynamic  # no CUDA graphs on a CPU
        compiled.append(network)
        return inductor(network, backend=backend)  # generating code would take a minute

    monkeypatch.setattr(torch, "compile", traced)
    options = {"compile": True, "channels_last": True, "precision": "bf16-mixed", "steps": 4}
    result, weights = run(change(CONFIG, **options), out=tmp_path)
    plain, expected = run(change(CONFIG, steps=4))
    assert compiled and list(weights) == list(expected)
    assert all(value.dtype != torch.bfloat16 for value in weights.values())
    assert result.history[0]["loss"] == pytest.approx(plain.history[0]["loss"], abs=0.05)
    assert result.history[0]["loss"] != plain.history[0]["loss"]


@pytest.mark.parametrize(
    ("objective", "fused"), [(build("scl"), True), (build("nested"), False), (Collapsing(), False)]
)
def test_only_objectives_of_plain_operations_are_compiled(
    objective: nn.Module, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[tuple[object, object]] = []
    monkeypatch.setattr(loop, "_alone_on_gpu", lambda fabric: True)
    monkeypatch.setattr(torch, "compile", lambda module, **how: compiled.append((module, how["dynamic"])) or module)
    for crops in (0, 2):  # small crops have a size of their own, and so code of their own
        config = change(CONFIG, compile=True, crops=crops)
        network = ToyNetwork()
        learner = loop.Learner(start(config), network, objective, config)
        assert learner.graphs is (crops == 0) and learner.objective is objective
        assert compiled == [(module, False) for module in ([network, objective] if fused else [network])]
        compiled.clear()


class Images(ToyRelation):
    def batch(self, step: int) -> Any:
        batch = super().batch(step)
        return batch._replace(x=batch.x.view(-1, 3, 2, 1), x_plus=batch.x_plus.view(-1, 3, 2, 1))


class Strides(nn.Module):
    """Network that records whether its input has channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.projector, self.last = nn.Conv2d(3, 4, (2, 1)), nn.Linear(4, 4), False

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.last = x.is_contiguous(memory_format=torch.channels_last) and x.stride(1) == 1
        features = self.conv(x).flatten(1)
        return features, self.projector(features)


def test_channels_last_reaches_the_network() -> None:
    for channels_last in (False, True):
        network = Strides()
        train(network, Images(), build("scl"), change(CONFIG, steps=4, channels_last=channels_last))
        assert network.last == channels_last
