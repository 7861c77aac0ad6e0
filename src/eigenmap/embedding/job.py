"""`embed_images`: from a source of images to codes on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from eigenmap.arguments import a_device, a_path, whole_number
from eigenmap.data.stream import open_stream
from eigenmap.embedding import engines
from eigenmap.embedding.blocks import Encoding
from eigenmap.embedding.files import SUFFIXES, join
from eigenmap.embedding.shards import Codebook, Plan, ShardFolder, parquet_module
from eigenmap.errors import EigenmapError
from eigenmap.model import Eigenmap

Engine = Literal["local", "ray"]
Files = Literal["parquet", "npy"]
ActorDevice = Literal["cpu", "cuda"]
SHARD_SIZE = 8192


class Embedded(NamedTuple):
    """What was made.

    Attributes:
        images: how many codes there are.
        dim: how long they are.
        skipped: (name, reason) of what could not be read.
        kept: the number of shards that were there from an earlier run.

    """

    images: int
    dim: int
    skipped: list[tuple[str, str]]
    kept: int


def embed_images(
    run: str | Path,
    source: str | Path,
    out: str | Path,
    dim: int | None = None,
    *,
    files: Files = "parquet",
    shard_size: int = SHARD_SIZE,
    batch_size: int = 256,
    device: str = "cpu",
    strict: bool = False,
    engine: Engine = "local",
    actors: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Embedded | None:
    """Write the codes of all images of a source, in constant memory.

    Args:
        run: the directory of the model.
        source: a folder of any depth, an .npy, .npz or parquet file, a folder of parquet files, one image.
        out: a file ending in .npy, .npz or .parquet, or else a folder of shards. Such a file, and a folder of codes,
            is replaced if it exists; anything else that is there is refused.
        dim: length of the codes; all features by default.
        files: what the shards of a folder are.
        shard_size: images a shard: what a kill can cost, and what is held in memory as codes.
        batch_size: images encoded at a time.
        device: "cpu" or "cuda"; under `torchrun` each process has a GPU of its own.
        strict: raise on the first unreadable image instead of leaving it out.
        engine: "local", or "ray" for a Ray cluster.
        actors: how many actors on Ray; one a GPU or processor by default.
        progress: called as progress(done, total).

    Returns:
        What was made; None in all but the first process of `torchrun`.

    Unfinished work is in a hidden folder beside `out`, and the same call goes on with it.

    """
    out, run, source = a_path(out, "out"), a_path(run, "run"), a_path(source, "source")
    shard_size, batch_size = whole_number(shard_size, "shard_size"), whole_number(batch_size, "batch_size")
    if actors is not None:
        whole_number(actors, "actors")
    _check_choices(files=(files, Files), engine=(engine, Engine))
    if engine == "local":
        a_device(device)
    else:
        _check_choices(device=(device, ActorDevice))  # those of the actors, who may be on other machines
    whole = out.suffix in SUFFIXES
    _check_output(out, whole)
    if engine == "ray":
        engines.ray_module()
    if out.suffix == ".parquet" or (not whole and files == "parquet"):
        parquet_module()
    model = Eigenmap.load(run)
    stream = open_stream(source)
    survey = stream.survey()
    if strict and survey.skipped:
        name, reason = survey.skipped[0]
        raise EigenmapError(f"{name} cannot be read: {reason}; repair or remove it, or allow files to be skipped")
    plan = Plan(
        Eigenmap.fingerprint(run),
        model.check_dim(dim),
        survey.count,
        survey.digest,
        shard_size,
        "npy" if whole else files,
    )
    folder = ShardFolder(out.absolute().with_name(f".{out.name}.parts"), plan)
    how = Encoding(plan.dim, device, batch_size, strict)
    process = engines.this_process()
    with engines.Together(process) as everyone:
        kept = folder.begin() if process.is_first else 0
        everyone.wait()
        tick = _Counter(progress if process.is_first else None, kept * shard_size, survey.count)
        try:
            if engine == "ray":
                engines.on_ray(run, stream, folder, how, actors, tick)
            else:
                engines.in_this_process(model, stream, folder, how, process, tick)
        except BaseException:
            folder.discard_if_fruitless()
            raise
        everyone.wait()
        if not process.is_first:
            return None
        codes = folder.complete()
        if not codes.images:
            shutil.rmtree(folder.path)
            raise _nothing_readable(codes)
        _publish(folder, codes, out, whole)
        return Embedded(codes.images, plan.dim, survey.skipped + codes.skipped, kept)


def _check_output(out: Path, whole: bool) -> None:
    """Refuse to replace what is not ours: a folder of photos, say."""
    if out.suffix and not whole:
        raise EigenmapError(f"{out} must end in .npy, .npz or .parquet, or name a folder, for example codes.npy")
    if whole and out.is_dir():
        raise EigenmapError(f"{out} is a folder; name a file for the codes")
    if not whole and out.exists() and not Codebook.is_at(out):
        raise EigenmapError(f"{out} exists and is not a folder of codes; choose another name")


def _check_choices(**asked: tuple[str, Any]) -> None:
    for name, (value, kind) in asked.items():
        if value not in get_args(kind):
            raise EigenmapError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}")


class _Counter:
    """Adds up what is done and passes it on."""

    def __init__(self, progress: Callable[[int, int], object] | None, done: int, total: int) -> None:
        self.progress = progress
        self.done = done
        self.total = total

    def __call__(self, images: int) -> None:
        self.done = min(self.total, self.done + images)
        if self.progress is not None:
            self.progress(self.done, self.total)


def _publish(folder: ShardFolder, codes: Codebook, out: Path, whole: bool) -> None:
    try:
        if whole:
            join(codes, out)
            shutil.rmtree(folder.path)
        else:
            folder.publish(out)
    except OSError as error:
        raise EigenmapError(f"{out} cannot be written: {error.strerror or error}") from error


def _nothing_readable(codes: Codebook) -> EigenmapError:
    name, reason = codes.skipped[-1]
    if len(codes.skipped) == 1:
        return EigenmapError(f"{name} cannot be read: {reason}")
    return EigenmapError(f"none of the {len(codes.skipped):,} images can be read, for example {name}: {reason}")
