"""Parts of `make release`; the whole of it needs a network and many minutes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_extra_has_a_smoke_test() -> None:
    import dependencies
    import release

    extras = set(dependencies.described()["optional-dependencies"]) - {"dev", "docs"}
    assert set(release.SMOKE) == {"", *extras}


@pytest.mark.parametrize("extra", ["", "parquet", "graphs", "transformers", "hub", "onnx", "ray"])
def test_smoke_tests_pass_here(extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    monkeypatch.setattr(release, "_bare", lambda: {**os.environ, "PYTHONPATH": str(ROOT / "src")})
    release._smoke(Path(sys.executable), extra, tmp_path)
    monkeypatch.setitem(release.SMOKE, extra, "assert False")
    with pytest.raises(release.ReleaseError, match=r"smoke_\w+\.py"):
        release._smoke(Path(sys.executable), extra, tmp_path)


def test_the_output_of_a_command_is_shown_only_if_it_fails(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import release

    assert release._run([sys.executable, "-c", "print(tuple('ab'))"], tmp_path) == "('a', 'b')"
    assert capfd.readouterr() == ("", "")
    with pytest.raises(release.ReleaseError, match=r"exit code 1 of .* -c 'print\(2\); assert False'"):
        release._run([sys.executable, "-c", "print(2); assert False"], tmp_path)
    err = capfd.readouterr().err
    assert err.startswith("2\n") and "AssertionError" in err


def test_uncommitted_changes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "new.txt").touch()
    monkeypatch.setattr(release, "ROOT", tmp_path)
    with pytest.raises(release.ReleaseError, match="uncommitted"):
        release.build(tmp_path / "work", lambda line: None)


def test_a_failure_ends_with_exit_code_1_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    def fail(work: Path, say: object) -> Path:
        raise release.ReleaseError("two builds differ")

    monkeypatch.setattr(release, "build", fail)
    monkeypatch.setattr(release, "DIST", tmp_path / "dist")
    monkeypatch.setattr(sys, "argv", ["release.py"])
    assert release.main() == 1
    assert (tmp_path / "dist" / "RELEASE.txt").read_text() == "FAILED: two builds differ\n"


def test_the_repository_cannot_be_seen_by_what_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    import release

    monkeypatch.setenv("PYTHONPATH", "somewhere")
    assert "PYTHONPATH" not in release._bare() and "PATH" in release._bare()
    assert all(Path(page).is_file() for page in release.PAGES) and len(release.PAGES) >= 10


def test_the_import_is_quick_and_loads_no_torch() -> None:
    code = (
        "import sys, time; began = time.process_time(); import eigenmap; "
        "print(time.process_time() - began, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, torch = done.stdout.split()
    assert float(seconds) < 1.0 and torch == "False"


def test_what_the_wheel_holds_is_small() -> None:
    files = [
        path for path in (ROOT / "src" / "eigenmap").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]
    assert sum(path.stat().st_size for path in files) < 30e6  # much of it is text, which the wheel compresses
    large = {path.name: path.stat().st_size for path in files if path.stat().st_size > 3e6}
    assert all(name in ("train.png",) for name in large), large


def test_the_version_has_one_place_and_the_papers_agree() -> None:
    import dependencies

    import eigenmap

    project = dependencies.described()
    assert project["dynamic"] == ["version"] and "version" not in project

    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(eigenmap.__version__)}$", changes, re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.findall(r"family-names: (\w+)", citation)
    page = (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")
    assert cited and all(name in page for name in cited)


def test_the_oldest_versions_are_those_of_the_project() -> None:
    import dependencies
    import release
    from packaging.requirements import Requirement

    pinned = {Requirement(line).name: line.partition("==")[2] for line in release.oldest()}
    assert pinned["torch"] == "2.4" and all(pinned.values())
    for uses in dependencies.direct().values():
        for extra, requirement in uses:
            if not extra:
                assert requirement.specifier.contains(pinned[requirement.name]), requirement


def test_the_stated_pythons_are_those_that_were_tried() -> None:
    import dependencies

    project = dependencies.described()
    stated = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    tried = re.findall(
        r"^\| (3\.\d+)\.\d+ \|", (ROOT / "docs" / "versions.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert set(stated) == set(tried) and f">={stated[0]}" == project["requires-python"]


def test_another_python_is_tried_with_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a try, in their order, without installing anything."""
    import release

    ran: list[str] = []

    def environment(folder: Path, packages: list[str], interpreter: str) -> Path:
        folder.mkdir()
        ran.append(" ".join([interpreter, *map(str, packages)]))
        return Path(sys.executable)

    def run(command: list[object], place: Path) -> str:
        ran.append(" ".join(map(str, command[1:])))
        return "3.99.0 2.4.0"

    monkeypatch.setattr(release, "_environment", environment)
    monkeypatch.setattr(release, "_run", run)
    monkeypatch.setattr(release, "_try_command", lambda python, place: ran.append("search"))
    said: list[str] = []
    release.try_python(Path("e.whl"), tmp_path / "new", "python3.99", said.append, ["torch==2.4"])
    assert ran[:2] == ["python3.99 e.whl torch==2.4", "-m pip check"]
    assert ran[2].endswith("smoke_plain.py") and ran[3] == "search"
    assert "oldest" in said[0] and "3.99.0 with torch 2.4.0" in said[0]
