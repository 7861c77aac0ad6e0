from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, EigenmapError
from eigenmap.data.images.stream import open_stream
from eigenmap.embedding import embed_images, engines
from eigenmap.embedding.blocks import Encoding
from eigenmap.embedding.shards import Codebook, Plan
from eigenmap.embedding.workspace import Workspace
from tests.end_to_end.process import ENVIRONMENT, LIMIT, command


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def by_two_processes(home: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program under torchrun, on two processes; torchrun leaves its logs in `home`."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, *map(str, words)],
        env=ENVIRONMENT | {"TMPDIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_two_processes_of_torchrun_share_the_shards(run: Path, photos: Path, tmp_path: Path) -> None:
    embed_images(run, photos, tmp_path / "one", shard_size=4)
    embed = command("embed", run, photos, "--out", tmp_path / "two", "--shard-size", 4, "--device", "cpu")
    done = by_two_processes(tmp_path, "--no-python", *embed)
    assert shards(tmp_path / "two") == shards(tmp_path / "one")
    assert done.stderr.count("30 codes") == 1
    assert not list(tmp_path.glob(".*"))


AFTER_TRAINING = """
import sys
import torch
from eigenmap.embedding import embed_images
torch.distributed.init_process_group("gloo")  # as a training in the same program leaves it
for out in sys.argv[3:]:
    embed_images(sys.argv[1], sys.argv[2], out, shard_size=4)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
"""


def test_a_program_that_trained_on_two_processes_can_embed_too(run: Path, photos: Path, tmp_path: Path) -> None:
    """Of old the processes, which had been joined already, could not be joined again."""
    (tmp_path / "program.py").write_text(AFTER_TRAINING)
    by_two_processes(tmp_path, tmp_path / "program.py", run, photos, tmp_path / "one", tmp_path / "two")
    assert shards(tmp_path / "two") == shards(tmp_path / "one")


def test_of_two_torchruns_with_one_output_one_is_refused(run: Path, photos: Path, tmp_path: Path) -> None:
    """In one sentence, by the first of its processes; the others end quietly."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    embed = command("embed", run, photos, "--out", tmp_path / "codes", "--shard-size", 4, "--device", "cpu")
    with Workspace(tmp_path / "codes").held():
        done = subprocess.run(
            [*torchrun, *embed],
            env=ENVIRONMENT | {"TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    assert done.returncode != 0
    assert done.stderr.count("another process") == 1, done.stderr
    assert "exitcode  : 2" in done.stderr and "eigenmap/embedding/" not in done.stderr, done.stderr
    assert not (tmp_path / "codes").exists()


RAY = """
import sys
import tempfile
from pathlib import Path
from eigenmap import EigenmapError
from eigenmap.embedding import embed_images

run, photos, out = map(Path, sys.argv[1:])
made = embed_images(run, photos, out / "ray", shard_size=4, engine="ray", actors=2)
assert made.images == 30 and len(made.skipped) == 1, made
import ray
assert ray.cluster_resources()["CPU"] == 2
try:
    embed_images(run, photos, out / "strict", shard_size=4, engine="ray", actors=1, strict=True)
except EigenmapError as error:
    assert "disc/broken.jpg cannot be read" in str(error), error
else:
    raise AssertionError("not refused")
"""


def test_the_actors_of_a_ray_cluster(run: Path, photos: Path, tmp_path: Path) -> None:
    embed_images(run, photos, tmp_path / "one", shard_size=4)
    # In a process of its own: Ray changes warnings, signals and logging, and not for one test only. Its sockets need a
    # folder with a short name.
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        environment = {name: value for name, value in ENVIRONMENT.items() if name != "RAY_ADDRESS"}
        done = subprocess.run(
            [sys.executable, "-c", RAY, str(run), str(photos), str(tmp_path)],
            env=environment | {"RAY_TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
            timeout=550,  # beside four busy loops on two cores it takes minutes; a test may take ten
        )
    assert done.returncode == 0, done.stderr
    assert shards(tmp_path / "ray") == shards(tmp_path / "one")
    assert not (tmp_path / "strict").exists()


@pytest.mark.parametrize(
    ("address", "expected"),
    [(None, {"address": "local", "num_cpus": 3}), ("", {"address": "local", "num_cpus": 3}), ("auto", {})],
)
def test_a_local_cluster_is_always_a_new_one(
    run: Path,
    photos: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str | None,
    expected: dict[str, Any],
) -> None:
    """Ray would join one that somebody started on this machine, and would not be told how many processors to use."""
    asked: list[dict[str, Any]] = []

    def init(**options: Any) -> None:
        asked.append({name: value for name, value in options.items() if name in ("address", "num_cpus")})
        raise EigenmapError("no cluster")

    fake = SimpleNamespace(is_initialized=lambda: False, init=init)
    monkeypatch.setattr(engines, "ray_module", lambda: fake)
    if address is None:
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
    else:
        monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(EigenmapError, match="no cluster"):
        embed_images(run, photos, tmp_path / "codes", engine="ray", actors=3)
    assert asked == [expected]


def test_ray_is_an_extra(run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setitem(sys.modules, "ray.data", None)
    with pytest.raises(EigenmapError, match=r'pip install "eigenmap\[ray\]"'):
        embed_images(run, photos, tmp_path / "codes", engine="ray")
    assert not list(tmp_path.iterdir())


def test_which_process_this_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert engines.this_process() == (0, 1, 0, 1)
    for name, value in (("RANK", 5), ("WORLD_SIZE", 8), ("LOCAL_RANK", 1), ("LOCAL_WORLD_SIZE", 4)):
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    process = engines.this_process()
    assert process == (5, 8, 1, 4) and not process.is_first


def test_a_process_without_a_gpu_of_its_own_is_told_before_anything_is_written(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of old this was a traceback of torch in the middle of the work."""
    second = engines.Process(1, 2, 1, 2)
    assert [engines.own_device(device, second) for device in ("cuda", "cpu", "cuda:0")] == ["cuda:1", "cpu", "cuda:0"]
    assert engines.own_device("cuda", engines.Process(0, 1, 0, 1)) == "cuda"
    monkeypatch.setattr(engines, "this_process", lambda: second)
    with pytest.raises(EigenmapError, match="device 'cuda:1' is not available here"):
        embed_images(run, photos, tmp_path / "codes", device="cuda")
    assert not list(tmp_path.iterdir())


def other_model(run: Path) -> Eigenmap:
    """A model of the same shape and other weights."""
    model = Eigenmap.load(run)
    for layer in model.network.projector.parameters():
        torch.nn.init.normal_(layer)
    return model


def test_codes_have_the_name_of_the_model_that_made_them(
    run: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the run gets another model as soon as this one is loaded."""
    own, load, other = tmp_path / "run", Eigenmap.load, other_model(run)
    shutil.copytree(run, own)
    first = Eigenmap.fingerprint(own)
    embed_images(own, photos, tmp_path / "before", shard_size=40)

    def replaced_after(directory: Path) -> Eigenmap:
        model = load(directory)
        other.save(own)
        return model

    monkeypatch.setattr(Eigenmap, "load", replaced_after)
    embed_images(own, photos, tmp_path / "codes", shard_size=40)
    ((_, before),), ((_, codes),) = Codebook.open(tmp_path / "before"), Codebook.open(tmp_path / "codes")
    assert Eigenmap.fingerprint(own) != first == Codebook.open(tmp_path / "codes").plan.fingerprint
    np.testing.assert_array_equal(codes, before)


def test_whoever_loaded_another_model_writes_no_shard(run: Path, photos: Path, tmp_path: Path) -> None:
    """An actor of Ray or a process of torchrun that was late, after the run got another model."""
    own, stream = tmp_path / "run", open_stream(photos)
    survey = stream.survey()
    plan = Plan(Eigenmap.fingerprint(run), 8, survey.count, survey.digest, 8, "npy")
    folder = Workspace(tmp_path / "codes").folder(plan)
    folder.make()
    other = other_model(run)
    other.save(own)
    how, sentence = Encoding(8, "cpu", 8, False), "model was replaced"
    worker = engines.ShardWorker(own, folder, how)
    shard = next(iter(stream.shards(8)))
    assert sentence in str(worker({"shard": [pickle.dumps(shard)]})["wrong"][0])
    late = engines.Process(1, 2, 1, 2)
    with pytest.raises(EigenmapError, match=sentence):
        engines.in_this_process(other, stream, folder, how, late, lambda images: None)
    assert not folder.is_finished(0) and not folder.is_finished(1)
    assert not engines.ShardWorker(run, folder, how)({"shard": [pickle.dumps(shard)]})["wrong"][0]
    assert folder.is_finished(0)
