"""The demo from end to end on a small part of the catalogue: everything is written, and says what was measured."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import eigenmap.demo.study as study
from eigenmap import Eigenmap, EigenmapError
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue
from eigenmap.data.images.catalogue import SplitName
from eigenmap.demo import METRIC_NAMES, Demo, Method, run
from eigenmap.demo.methods import NAMES, stored_rival, where_pixels_are_level
from eigenmap.demo.page import score_rows

FIGURES = (
    *("retrieval", "retrieval-top100", "spectrum", "lengths", "training", "exciting"),
    *("gallery-clean", "gallery-posed"),
)
SECTIONS = (
    *("Retrieval", "What a query finds", "Eigenfunctions", "Spectrum", "Training", "All measurements"),
    *("Use it", "Configuration"),
)


def few(split: SplitName, posed: bool) -> ImageSet:
    return catalogue.load(split, posed).subset(range(300 if split == "train" else 40))


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "demo"


@pytest.fixture(scope="module")
def demo(out: Path) -> Demo:
    return run(out, steps=4, progress=False, load=few)


def test_every_file_is_written(demo: Demo, out: Path) -> None:
    assert (out / "report.html").stat().st_size > 50_000
    for name in FIGURES:
        assert (out / "figures" / f"{name}.svg").stat().st_size > 2_000
        assert (out / "figures" / f"{name}.png").stat().st_size > 2_000
    for scene in ("clean", "posed"):
        assert Eigenmap.load(out / scene).n_components == demo.scenes[scene].model.n_components


def test_every_method_has_every_metric_at_every_length(demo: Demo) -> None:
    for scene in demo.scenes.values():
        assert set(scene.methods) == set(NAMES)
        for metric in METRIC_NAMES:
            for method in scene.methods.values():
                assert all(0 <= value <= 1 for value in method.values(metric).values())
        assert list(scene.methods["ours"].values("precision@100")) == [2, 4, 8, 16, 32, 64, 128]
        assert list(scene.methods["pixel-pca"].values("precision@100"))[-1] == 784
        assert list(scene.methods["pixels"].values("precision@100")) == [784]
        assert scene.methods["random"].spread("precision@100")[2] > 0


def test_json_holds_what_the_tables_show(demo: Demo, out: Path) -> None:
    stored = json.loads((out / "demo.json").read_text())
    assert (stored["steps"], stored["seed"]) == (4, 0)
    for name, scene in demo.scenes.items():
        methods = stored["scenes"][name]["methods"]
        for key, method in scene.methods.items():
            assert methods[key]["rows"] == list(method.rows)
        assert stored["scenes"][name]["eigenvalues"] == scene.model.eigenvalues_.tolist()
    assert stored["rival"]["steps"] == stored_rival()["steps"]
    assert stored["environment"]["torch"] and stored["protocol"]


def test_the_report_has_every_part_and_stands_alone(demo: Demo, out: Path) -> None:
    text = (out / "report.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2>(.*?)</h2>", text) == list(SECTIONS)
    for metric in METRIC_NAMES.values():
        assert metric in text
    assert f"{demo.scenes['clean'].methods['ours'].values('map_over_found@1000')[8]:.3f}" in text
    assert "Eigenmap.load(" in text and str(demo.environment["torch"]) in text
    assert text.count('<article class="answers">') == 2 * len(demo.scenes["clean"].answers) == 8
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r'https?://[^"\s<)]+', text)) <= namespaces
    assert "<script" not in text and "<link" not in text


def test_examples_know_right_from_wrong(demo: Demo) -> None:
    for answers in demo.scenes["clean"].answers:
        assert list(answers.hits) == [2, 4, 8, 16, 32]
        for hits in answers.hits.values():
            assert len(hits) == 10
            assert all(hit.right == (hit.label == answers.label) for hit in hits)


def test_the_same_seed_gives_the_same_figures(demo: Demo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(study, "SCENES", ("posed",))
    monkeypatch.setattr("eigenmap.demo.page.write_all", lambda demo, out: None)
    again = run(tmp_path / "again", steps=4, progress=False, load=few)
    assert again.scenes["posed"].methods["ours"].rows == demo.scenes["posed"].methods["ours"].rows


def test_tables_have_a_cell_for_every_length(demo: Demo) -> None:
    head, rows = score_rows(demo.scenes["clean"].methods, "map_over_found@1000")
    assert head == ["features", "2", "4", "8", "16", "32", "64", "128", "full (of)"]
    assert {len(row) for row in rows} == {len(head)}
    assert rows[0][0] == NAMES["ours"] and rows[-1][-1].endswith("(784)")


@pytest.mark.parametrize("minutes", [0.001, 0.2])
def test_the_time_limit_holds_however_few_steps_fit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, minutes: float
) -> None:
    """No least number of steps: a slow machine trains less, and the demo says that there is little to see."""
    monkeypatch.setattr("eigenmap.demo.page.write_all", lambda demo, out: None)
    said: list[str] = []
    demo = run(tmp_path, minutes=minutes, progress=False, load=few, say=said.append)
    assert 1 <= demo.steps < study.STEPS
    assert demo.steps == min(scene.model.training["steps"] for scene in demo.scenes.values())
    trained = sum(scene.model.training["seconds"] for scene in demo.scenes.values())
    longest = max(record["seconds"] / record["step"] for scene in demo.scenes.values() for record in scene.history)
    assert trained <= max(60 * minutes, study.SHORTEST_S) + 2 * longest
    assert any("of the rival's 450" in line and "little to see" in line for line in said)


def test_steps_end_with_those_of_the_rival(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("eigenmap.demo.page.write_all", lambda demo, out: None)
    monkeypatch.setattr(study, "STEPS", 3)
    assert run(tmp_path, minutes=5, progress=False, load=few).steps == 3


@pytest.mark.parametrize(
    ("ours", "pixels", "expected"),
    [
        ({2: 0.5, 8: 0.7}, {2: 0.4, 8: 0.705}, r"8 features.*0\.705.*0\.700 at 8"),
        ({2: 0.5, 8: 0.7}, {2: 0.5, 8: 0.75}, r"2 to 8 features.*0\.750.*0\.700 at 8"),
        ({2: 0.5, 8: 0.7}, {2: 0.3, 8: 0.6}, r"8 features.*0\.600.*0\.700"),
    ],
)
def test_the_sentence_about_pixels(ours: dict[int, float], pixels: dict[int, float], expected: str) -> None:
    methods = {
        key: Method(key, [{"dim": dim, "map_over_found@100": value} for dim, value in values.items()])
        for key, values in (("ours", ours), ("pixel-pca", pixels))
    }
    assert re.search(expected, where_pixels_are_level(methods))


def test_bad_input_is_refused_before_anything_is_written(out: Path, demo: Demo, tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match="not empty"):
        run(out, steps=4)
    with pytest.raises(EigenmapError, match=r"minutes.*0"):
        run(tmp_path / "new", minutes=0)
    with pytest.raises(EigenmapError, match=r"steps.*1"):
        run(tmp_path / "new", steps=0)
    (tmp_path / "file").write_text("")
    with pytest.raises(EigenmapError, match="is a file"):
        run(tmp_path / "file", steps=4)
    assert not (tmp_path / "new").exists()


def test_the_command_prints_both_tables(demo: Demo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import eigenmap.cli.demo
    from eigenmap.cli.app import app

    monkeypatch.setattr("eigenmap.demo.run", lambda out, **settings: demo)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "demo")])
    assert result.exit_code == 0, result.output
    for name in ("clean", "posed"):
        assert f"{name} catalogue" in result.output
    for method in NAMES.values():
        assert result.output.count(method) >= 2
    assert re.search("mAP.*top 100", result.output) and "report.html" in result.output
    assert eigenmap.cli.demo.__doc__
