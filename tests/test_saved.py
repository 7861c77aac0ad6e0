"""The files of a model; tests/test_model.py and tests/robustness have more of what a save may leave behind."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch

from eigenmap import EigenmapError
from eigenmap.description import KERNEL_FORMAT, MODEL_FORMAT, VERSION, format_of, read_any
from eigenmap.saved import WAITING, prefixed, read_weights, write_model


def write(directory: Path, value: float, format: str = KERNEL_FORMAT) -> None:
    def describe(digest: str) -> dict[str, Any]:
        return {"format": format, "version": VERSION, "weights_sha256": digest}

    write_model(directory, {"a.x": torch.full((3,), value), "b": torch.zeros(1)}, describe)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / "new" / "model", 1.0)
    directory = tmp_path / "new" / "model"
    tensors = read_weights(directory, read_any(directory)["weights_sha256"])
    assert prefixed("a.", tensors)["x"].tolist() == [1.0] * 3 and "x" not in prefixed("b", tensors)
    assert sorted(path.name for path in directory.iterdir()) == ["model.json", "model.safetensors"]


@pytest.mark.parametrize("format", [MODEL_FORMAT, KERNEL_FORMAT])
def test_a_save_that_was_cut_short_is_finished_by_the_next_whatever_its_format(tmp_path: Path, format: str) -> None:
    write(tmp_path, 1.0, format)
    named = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / WAITING).write_bytes(named)
    (tmp_path / "model.safetensors").write_bytes(b"of the model before")
    assert read_weights(tmp_path, read_any(tmp_path)["weights_sha256"])["a.x"][0] == 1.0

    def fail(digest: str) -> dict[str, Any]:
        raise OSError(28, "No space left on device")

    with pytest.raises(EigenmapError, match=f"{tmp_path}.*No space left"):
        write_model(tmp_path, {"a.x": torch.zeros(3)}, fail)
    assert (tmp_path / "model.safetensors").read_bytes() == named and not (tmp_path / WAITING).exists()
    assert (
        read_any(tmp_path)["weights_sha256"]
        == hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    )


def test_the_format_of_what_is_no_model(tmp_path: Path) -> None:
    assert format_of(tmp_path) == MODEL_FORMAT
    (tmp_path / "model.json").write_text('{"format": ["eigenmap-kernel-model"]}')
    assert format_of(tmp_path) == MODEL_FORMAT
    with pytest.raises(EigenmapError, match="describe"):
        read_any(tmp_path)
