from __future__ import annotations

import errno
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from eigenmap.core.errors import EigenmapError
from eigenmap.training import checkpoint
from eigenmap.training.checkpoint import Checkpoint


def example(step: int = 3) -> Checkpoint:
    return Checkpoint(
        step=step,
        seconds=1.5,
        settings={"lr": 0.1, "clip_norm": None, "compile": False, "optimizer": "sgd"},
        network={"weight": torch.arange(1000.0)},
        objective={},
        optimizer={"state": {0: {"momentum_buffer": torch.ones(3)}}, "param_groups": [{"name": "encoder", "lr": 0.1}]},
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(), path)
    loaded = checkpoint.load(path)
    assert (loaded.step, loaded.seconds, loaded.settings) == (3, 1.5, example().settings)
    assert torch.equal(loaded.network["weight"], torch.arange(1000.0))
    assert loaded.optimizer["param_groups"] == example().optimizer["param_groups"]
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("fault", ["replace", "save"])
def test_a_write_that_fails_keeps_the_previous_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(step=3), path)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((Path, "replace", fail) if fault == "replace" else (torch, "save", fail)))
    with pytest.raises(EigenmapError, match=r"No space left.*previous"):
        checkpoint.save(example(step=4), path)
    assert checkpoint.load(path).step == 3
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_the_old_checkpoint_is_there_while_the_new_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(step=3), path)
    save, seen = torch.save, []

    def look(*arguments: object) -> None:
        save(*arguments)  # type: ignore[arg-type]
        seen.append(checkpoint.load(path).step)

    monkeypatch.setattr(torch, "save", look)
    checkpoint.save(example(step=4), path)
    assert seen == [3] and checkpoint.load(path).step == 4


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "text", "other"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(), path)
    content = bytearray(path.read_bytes())
    if damage == "flipped":  # one bit in the middle of the weights
        content[content.find(torch.arange(1000.0).numpy().tobytes()) + 2000] ^= 1
    path.write_bytes(
        {"truncated": content[:-500], "flipped": content, "empty": b"", "text": b"not a checkpoint", "other": b""}[
            damage
        ]
    )
    if damage == "other":
        torch.save({"weights": torch.ones(2)}, path)
    with pytest.raises(EigenmapError, match=r"checkpoint\.pt.*damaged"):
        checkpoint.load(path)


def test_an_unreadable_checkpoint_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "checkpoint.pt"
    path.touch()

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zipfile.ZipFile", refuse)
    with pytest.raises(EigenmapError, match=r"checkpoint\.pt.*Permission denied"):
        checkpoint.load(path)


def test_nothing_in_a_checkpoint_is_executed(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (str(tmp_path / "executed"),))

    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(), path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, pickle.dumps(Payload(), 2) if name.endswith("data.pkl") else content)
    with pytest.raises(EigenmapError, match=r"damaged.*tensors") as caught:
        checkpoint.load(path)
    assert not (tmp_path / "executed").exists()
    assert "weights_only" not in str(caught.value)  # which torch suggests, and which would execute code


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("step", "3"),
        ("step", -1),
        ("seconds", float("nan")),
        ("settings", {"lr": [1]}),
        ("settings", None),
        ("network", {1: torch.ones(2)}),
        ("objective", []),
        ("optimizer", torch.ones(2)),
    ],
)
def test_parts_of_another_kind_are_damage(part: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(example(), path)
    state = torch.load(path, weights_only=True)
    torch.save(state | {part: value}, path)
    with pytest.raises(EigenmapError, match=rf"checkpoint\.pt.*damaged.*{part}"):
        checkpoint.load(path)


def test_missing_and_foreign_checkpoints_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EigenmapError, match=r"no checkpoint .*checkpoint\.pt"):
        checkpoint.load(tmp_path / "checkpoint.pt")
    monkeypatch.setattr(checkpoint, "CHECKPOINT_FORMAT", 0)
    checkpoint.save(example(), tmp_path / "checkpoint.pt")
    monkeypatch.undo()
    with pytest.raises(EigenmapError, match="format version"):
        checkpoint.load(tmp_path / "checkpoint.pt")


def test_settings_may_be_numbers_of_numpy(tmp_path: Path) -> None:
    saved = replace(example(), settings={"lr": np.float64(0.1), "steps": np.int64(7)})
    checkpoint.save(saved, tmp_path / "checkpoint.pt")
    loaded = checkpoint.load(tmp_path / "checkpoint.pt")
    loaded.require({"lr": 0.1, "steps": 7}, tmp_path)
    assert [type(value) for value in loaded.settings.values()] == [float, int]


def test_differing_settings_are_listed(tmp_path: Path) -> None:
    example().require(example().settings, tmp_path)
    with pytest.raises(EigenmapError, match=r"data .*'not set'.*'cats'.*lr .*0\.1.*0\.2"):
        example().require({**example().settings, "lr": 0.2, "data": "cats"}, tmp_path)


def test_a_full_disk_is_reported_in_plain_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 387776 vs 387672")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(EigenmapError, match=r"disk.*full"):
        checkpoint.save(example(), tmp_path / "checkpoint.pt")
    assert list(tmp_path.iterdir()) == []
