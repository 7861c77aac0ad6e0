"""Embedding job: from a source of images to codes on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from eigenmap.core.arguments import a_device, a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import require_writable
from eigenmap.core.folders import recover, remove_leftovers
from eigenmap.data.images.rows import ImageStream, nothing_readable, strict_error
from eigenmap.data.images.stream import open_stream
from eigenmap.data.parquet import parquet_module
from eigenmap.embedding import engines
from eigenmap.embedding.blocks import Encoding
from eigenmap.embedding.files import SUFFIXES, join_shards
from eigenmap.embedding.publication import Publication, Replaced
from eigenmap.embedding.shards import Plan
from eigenmap.embedding.workspace import ShardFolder, Workspace
from eigenmap.model import Eigenmap

Engine = Literal["local", "ray"]
Files = Literal["parquet", "npy"]
ActorDevice = Literal["cpu", "cuda"]
SHARD_SIZE = 8192


class Embedded(NamedTuple):
    """Result of an embedding job.

    Attributes:
        images: number of codes.
        dim: length of the codes.
        skipped: (name, reason) of images that could not be read.
        kept: number of shards reused from an earlier run.

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
    overwrite: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Embedded | None:
    """Write the codes of all images in a source, in constant memory.

    Args:
        run: directory of the model.
        source: a folder of any depth, an .npy, .npz or Parquet file, a folder of Parquet files, or one image.
        out: a file ending in .npy, .npz or .parquet, or else a folder of shards. An existing file of that kind or
            folder of codes is replaced; anything else that exists, or appears meanwhile, is refused.
        dim: length of the codes; default all features.
        files: format of the shards in a folder.
        shard_size: images per shard: the most work that a kill can lose, and the most codes held in memory.
        batch_size: number of images encoded at a time.
        device: "cpu" or "cuda"; under `torchrun` each process uses its own GPU.
        strict: raise on the first unreadable image instead of skipping it.
        engine: "local", or "ray" for a Ray cluster.
        actors: number of Ray actors; default one per GPU or processor.
        overwrite: whether existing codes may be replaced.
        progress: called as progress(done, total).

    Returns:
        The result; None in all but the first process of `torchrun`.

    Unfinished work is kept in a hidden folder beside `out`, and the same call continues it. Only one process (with the
    others of its `torchrun`, or its actors) may write to `out` at a time; a second one is refused.

    """
    out, run, source = a_path(out, "out"), a_path(run, "run"), a_path(source, "source")
    shard_size, batch_size = whole_number(shard_size, "shard_size"), whole_number(batch_size, "batch_size")
    if actors is not None:
        whole_number(actors, "actors")
    _check_choices(files=(files, Files), engine=(engine, Engine))
    process = engines.this_process()
    if engine == "local":
        device = engines.own_device(device, process)
        a_device(device)
    else:
        _check_choices(device=(device, ActorDevice))  # devices of the actors, which may run on other machines
    whole = out.suffix in SUFFIXES
    out = out.absolute() if whole else out.resolve()
    workspace = Workspace(out)
    if process.is_first:
        _check_output(workspace)
    if engine == "ray":
        engines.ray_module()
    if out.suffix == ".parquet" or (not whole and files == "parquet"):
        parquet_module()
    model = Eigenmap.load(run)
    assert model.weights_sha256 is not None  # set when the model was loaded
    wanted = _Wanted(model.weights_sha256, model.check_dim(dim), shard_size, "npy" if whole else files)
    stream = open_stream(source, workspace.listing)
    how = Encoding(wanted.dim, device, batch_size, strict)
    with engines.Together(process) as everyone, ExitStack() as held:
        begun = everyone.from_first(lambda: held.enter_context(_begun(workspace, stream, wanted, strict, overwrite)))
        if begun is None or begun.finished is not None:
            return begun.finished if begun is not None and process.is_first else None
        folder = begun.folder
        tick = _Counter(progress if process.is_first else None, begun.kept * shard_size, folder.plan.images)
        if engine == "ray":
            engines.on_ray(run, stream, folder, how, actors, tick)
        else:
            engines.in_this_process(model, stream, folder, how, process, tick)
        everyone.wait()
        if not process.is_first:
            return None
        with _writing(out):
            return _finish(workspace, begun)


class _Wanted(NamedTuple):
    """Requested output, independent of the images."""

    fingerprint: str
    dim: int
    shard_size: int
    files: str


@dataclass(frozen=True)
class _Begun:
    """Job in progress: its shards, the number already finished, and the output that it may replace."""

    folder: ShardFolder
    kept: int
    skipped: list[tuple[str, str]]
    replaced: Replaced
    finished: Embedded | None = None


@contextmanager
def _begun(
    workspace: Workspace, stream: ImageStream, wanted: _Wanted, strict: bool, overwrite: bool
) -> Iterator[_Begun]:
    """Hold the workspace, and remove it at the end if nothing in it is worth keeping."""
    with ExitStack() as held:
        with _writing(workspace.out):
            held.enter_context(workspace.held())
        try:
            with _writing(workspace.out):
                begun = _begin(workspace, stream, wanted, strict, overwrite)
            yield begun
        except BaseException:
            with suppress(OSError):  # report the first error; the next run removes leftovers
                if workspace.is_fruitless():
                    workspace.discard()
            raise


def _begin(workspace: Workspace, stream: ImageStream, wanted: _Wanted, strict: bool, overwrite: bool) -> _Begun:
    """Determine what is left to do, and clean up after killed processes."""
    recover(workspace.out)
    remove_leftovers(workspace.out)
    if workspace.is_fruitless():  # no other process can have prepared these results for us
        Publication(workspace.path, workspace.out).replaceable(overwrite)
    survey = stream.survey()
    if survey.count == 0:
        raise EigenmapError("the images found at the start no longer exist")
    if strict and survey.skipped:
        raise strict_error(*survey.skipped[0])
    plan = Plan(wanted.fingerprint, wanted.dim, survey.count, survey.digest, wanted.shard_size, wanted.files)
    folder = workspace.folder(plan)
    publication = Publication(folder.path, workspace.out)
    state = {path: Publication(path, workspace.out).settle() for path in workspace.plans()}.get(folder.path)
    if state == "published" and folder.is_of(stream):
        images, skipped, _ = folder.summary()
        workspace.discard()
        made = Embedded(images, plan.dim, survey.skipped + skipped, plan.shards)
        return _Begun(folder, plan.shards, survey.skipped, Replaced(None, None), made)
    replaced = publication.replaceable(overwrite)
    if state in ("published", "lost"):
        folder.discard()
    workspace.keep_only(folder)
    folder.make()
    return _Begun(folder, folder.keep_current(stream), survey.skipped, replaced)


def _finish(workspace: Workspace, begun: _Begun) -> Embedded:
    """Publish the codes under their name and remove the workspace."""
    codes = begun.folder.complete()
    if not codes.images:
        workspace.discard()
        raise nothing_readable(codes.skipped)
    publication = Publication(begun.folder.path, workspace.out)
    if publication.staged != codes.path:
        join_shards(codes, workspace.out.suffix, publication.staged, publication.staged_names)
    publication.publish(begun.replaced)
    workspace.discard()
    return Embedded(codes.images, codes.plan.dim, begun.skipped + codes.skipped, begun.kept)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EigenmapError(f"{out} cannot be written: {error.strerror or error}") from error


def _check_output(workspace: Workspace) -> None:
    """Refuse an output that can never be written, before anything is loaded."""
    out = workspace.out
    if out.suffix and out.suffix not in SUFFIXES:
        raise EigenmapError(f"{out} must end in .npy, .npz or .parquet, or be a folder, for example codes.npy")
    if not workspace.path.exists():  # otherwise a killed process may have left it half published
        Publication(workspace.path, out).require_ours()
    require_writable(out)


def _check_choices(**asked: tuple[str, Any]) -> None:
    for name, (value, kind) in asked.items():
        if value not in get_args(kind):
            raise EigenmapError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}")


class _Counter:
    """Sums finished images and reports progress."""

    def __init__(self, progress: Callable[[int, int], object] | None, done: int, total: int) -> None:
        self.progress = progress
        self.done = done
        self.total = total

    def __call__(self, images: int) -> None:
        self.done = min(self.total, self.done + images)
        if self.progress is not None:
            self.progress(self.done, self.total)
