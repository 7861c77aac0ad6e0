from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError
from eigenmap.core import folders
from eigenmap.embedding import embed_images, publication
from eigenmap.embedding.publication import Publication, path_identity
from eigenmap.embedding.shards import Codebook
from eigenmap.embedding.workspace import Workspace
from tests.end_to_end.photos import pictures


@pytest.fixture
def source(tmp_path: Path) -> Path:
    np.save(tmp_path / "pictures.npy", pictures(9))
    return tmp_path / "pictures.npy"


def embed(run: Path, source: Path, out: Path, **options: Any) -> None:
    embed_images(run, source, out, shard_size=4, **options)


def a_folder(path: Path) -> None:
    path.mkdir()
    (path / "precious.txt").write_text("mine")


def a_file(path: Path) -> None:
    path.write_text("mine")


def a_link(path: Path) -> None:
    path.symlink_to("nowhere")


def mine(path: Path) -> object:
    return [(file.name, file.read_text()) for file in path.iterdir()] if path.is_dir() else path_identity(path)


@pytest.fixture
def nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From the moment it is called."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError("computed again")

    return lambda: monkeypatch.setattr(Eigenmap, "encode", never)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("appears", [a_folder, a_file, a_link])
@pytest.mark.parametrize(
    ("out", "where"),
    [("codes", "codes"), ("codes.npy", "codes.npy"), ("c.npz", "c.npz"), ("codes.npy", "codes.ids.json")],
)
def test_what_appears_meanwhile_is_refused_and_the_work_is_kept(
    run: Path,
    source: Path,
    tmp_path: Path,
    nothing_is_computed: Any,
    out: str,
    where: str,
    appears: Any,
    overwrite: bool,
) -> None:
    place = tmp_path / where
    before: list[object] = []

    def intrude(done: int, total: int) -> None:
        if not before and done == total:
            appears(place)
            before.append(mine(place))

    with pytest.raises(EigenmapError, match=f"{place}.*changed"):
        embed(run, source, tmp_path / out, progress=intrude, overwrite=overwrite)
    assert [mine(place)] == before
    assert where == out or not (tmp_path / out).exists()
    nothing_is_computed()
    place.replace(tmp_path / "away")
    embed(run, source, tmp_path / out)
    kept = {out, "codes.ids.json"} if out.endswith(".npy") else {out}
    assert {path.name for path in tmp_path.iterdir()} == kept | {"away", "pictures.npy"}


@pytest.mark.parametrize("out", ["codes", "codes.npy", "codes.parquet"])
def test_what_is_changed_meanwhile_is_refused_too(run: Path, source: Path, tmp_path: Path, out: str) -> None:
    """It was to be replaced, and is not what it was any more."""
    place = tmp_path / out
    embed(run, source, place, dim=3)

    def intrude(done: int, total: int) -> None:
        if done == total:
            place.replace(tmp_path / "away")
            (a_folder if out == "codes" else a_file)(place)

    with pytest.raises(EigenmapError, match=f"{place}.*changed"):
        embed(run, source, place, progress=intrude)
    assert "mine" in str(mine(place)) if out == "codes" else place.read_text() == "mine"


def test_what_goes_away_meanwhile_is_not_missed(run: Path, source: Path, tmp_path: Path) -> None:
    embed(run, source, tmp_path / "codes", dim=3)
    embed(
        run,
        source,
        tmp_path / "codes",
        progress=lambda *_: (tmp_path / "codes").rename(tmp_path / "away") if (tmp_path / "codes").exists() else None,
    )
    assert Codebook.open(tmp_path / "codes").plan.dim == 8
    assert Codebook.open(tmp_path / "away").plan.dim == 3


@pytest.mark.parametrize("out", ["codes", "codes.npy"])
def test_what_appears_in_the_last_moment_goes_back(
    run: Path, source: Path, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last look, and before the exchange."""
    place = tmp_path / out
    embed(run, source, place, dim=3)

    def late(staged: Path, target: Path) -> None:
        monkeypatch.setattr(publication, "exchange", folders.exchange)
        place.rename(tmp_path / "away")
        (a_folder if out == "codes" else a_file)(place)
        folders.exchange(staged, target)

    monkeypatch.setattr(publication, "exchange", late)
    with pytest.raises(EigenmapError, match="changed"):
        embed(run, source, place)
    assert (place / "precious.txt").exists() if out == "codes" else place.read_text() == "mine"


def test_existing_codes_are_replaced_only_if_that_is_allowed(run: Path, source: Path, tmp_path: Path) -> None:
    embed(run, source, tmp_path / "codes", dim=3)
    with pytest.raises(EigenmapError, match=r"codes exists.*overwrite=True"):
        embed(run, source, tmp_path / "codes", overwrite=False)
    embed(run, source, tmp_path / "codes", overwrite=True)
    assert Codebook.open(tmp_path / "codes").plan.dim == 8
    assert {path.name for path in tmp_path.iterdir()} == {"codes", "pictures.npy"}


def test_a_link_to_a_folder_of_codes(run: Path, source: Path, tmp_path: Path) -> None:
    """The folder is replaced, wherever it is, and the link stays."""
    (tmp_path / "disk").mkdir()
    embed(run, source, tmp_path / "disk" / "codes", dim=3)
    (tmp_path / "codes").symlink_to("disk/codes")
    embed(run, source, tmp_path / "codes")
    assert (tmp_path / "codes").is_symlink() and Codebook.open(tmp_path / "disk" / "codes").plan.dim == 8
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["codes"]


def test_what_was_swapped_in_by_mistake_is_swapped_back_after_a_kill(tmp_path: Path) -> None:
    """A kill between the exchange and the look at what came back."""
    parts, out = tmp_path / ".codes.parts" / "plan", tmp_path / "codes"
    for folder, content in ((parts / "codes", "new"), (out, "precious")):
        folder.mkdir(parents=True)
        (folder / "_embedding.json").write_text(content)
    work = Publication(parts, out)
    (parts / "publishing.json").write_text(f'{{"digest": "{publication._digest(parts / "codes")}", "replaces": [1]}}')
    folders.exchange(parts / "codes", out)
    assert work.settle() == "waiting"
    assert (out / "_embedding.json").read_text() == "precious"
    assert work.settle() == "waiting" and not (parts / "publishing.json").exists()


def test_what_a_path_leads_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")
    before = path_identity(tmp_path / "file")
    assert before is not None and before == path_identity(tmp_path / "file")
    (tmp_path / "file").write_text("ab")
    assert path_identity(tmp_path / "file") != before
    assert path_identity(tmp_path / "gone") is None and path_identity(tmp_path / "file" / "below") is None


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "3", '{"digest": "a"}', '{"digest": 3, "replaces": null}', '{"digest": "a", "replaces": {}}'],
)
def test_a_damaged_record_is_named(run: Path, source: Path, tmp_path: Path, content: str) -> None:
    def die(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embed(run, source, tmp_path / "codes", progress=die)
    (plan,) = Workspace(tmp_path / "codes").plans()
    (plan / "publishing.json").write_text(content)
    for overwrite in (False, True):
        with pytest.raises(EigenmapError, match=r"publishing\.json.*damaged.*/\.codes\.parts/"):
            embed(run, source, tmp_path / "codes", overwrite=overwrite)
    shutil.rmtree(plan)
    embed(run, source, tmp_path / "codes")
    assert len(Codebook.open(tmp_path / "codes")) == 9
