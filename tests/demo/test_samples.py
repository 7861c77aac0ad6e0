"""Sample data of the how-tos: `eigenmap demo --data NAME`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eigenmap.cli.demo import Sample
from eigenmap.core.errors import EigenmapError
from eigenmap.demo import samples
from tests.cli.run import refused, succeed

ROOT = Path(__file__).parents[2]


def test_each_name_is_a_how_to_that_begins_with_it() -> None:
    assert [sample.value for sample in Sample] == list(samples.SAMPLES)
    for name in samples.SAMPLES:
        page = (ROOT / "docs" / "howto" / f"{name}.md").read_text(encoding="utf-8")
        assert page.split("```console\n")[1].startswith(f"$ eigenmap demo --data {name}\n")


@pytest.mark.parametrize("name", list(samples.SAMPLES))
def test_the_data_are_the_same_each_time(name: str, tmp_path: Path) -> None:
    made = samples.write(name, tmp_path / "one", small=True)
    samples.write(name, tmp_path / "two", small=True)
    assert sorted(path.name for path in made) == sorted(path.name for path in (tmp_path / "one").iterdir())
    files = [path for path in (tmp_path / "one").rglob("*") if path.suffix in (".png", ".npy", ".txt")]
    assert files
    for path in files:
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes()


@pytest.mark.parametrize("name", ["embeddings", "graph"])
def test_texts_are_the_same_in_every_process(name: str, tmp_path: Path) -> None:
    """scipy draws some numbers of its documentation at random, when it is imported."""
    code = "import sys, pathlib; from eigenmap.demo.samples import write; write(sys.argv[1], pathlib.Path(sys.argv[2]))"
    for folder in ("one", "two"):
        subprocess.run([sys.executable, "-c", code, name, str(tmp_path / folder)], check=True)
    for path in (tmp_path / "one").glob("*.np*"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


def test_nothing_is_replaced_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "run1.npy").write_text("mine")
    with pytest.raises(EigenmapError, match=r"run1\.npy exists"):
        samples.write("time", tmp_path, small=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run1.npy"]
    assert (tmp_path / "run1.npy").read_text() == "mine"
    samples.write("time", tmp_path, small=True, force=True)
    assert np.load(tmp_path / "run1.npy").shape == (5_000, 8)


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "mine.png").write_text("mine")
    samples.write("photos", tmp_path, small=True, force=True)
    assert not (tmp_path / "photos" / "mine.png").exists()
    assert len(list((tmp_path / "photos").rglob("*.png"))) == 120


def test_wrong_names_and_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="'nothing'"):
        samples.write("nothing", tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match="is a file"):
        samples.write("time", tmp_path / "file")


def test_the_command_writes_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "new.png, photos/" in succeed("demo", "--data", "photos", "--small").out
    assert "new.png exists" in refused("demo", "--data", "photos", "--small")
    assert "else/left.npy" in succeed("demo", "--data", "pairs", "--out", "else").out
    assert "--ready or --data" in refused("demo", "--data", "pairs", "--ready")
    assert "--small needs --data" in refused("demo", "--small")
