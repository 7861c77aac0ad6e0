"""The page about a run: every part, the numbers, nothing from elsewhere, every name escaped."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from eigenmap import Eigenmap, EigenmapError
from eigenmap.data import ImageSet
from eigenmap.data.images.labels import Labels
from eigenmap.evaluation.baselines import compare, compare_random, split_queries
from eigenmap.figures.answers import find_answers
from eigenmap.figures.excitation import excited_by, make_exciting
from eigenmap.figures.run_page import comparison_rows, health_row, run_page, suggestions, usage_section
from eigenmap.figures.scores import read_scores
from eigenmap.figures.study import Study, draw_figures, read_run
from tests.figures.test_report import Checker

ATTACK = '<script>alert("x")</script>&\'.png'


@pytest.fixture(scope="module")
def study(run_dir: Path, garments: ImageSet, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Everything there can be, with names that somebody chose with care."""
    run = read_run(run_dir)
    names = [f"{ATTACK} {i % 10}" for i in range(len(garments))]
    images = ImageSet(garments.pixels, [f"{i}{ATTACK}" for i in range(len(garments))], Labels.from_names(names))
    gallery, queries = split_queries(images)
    scores = tmp_path_factory.mktemp("scores") / "<i>r.json"
    rows = [{"dim": dim, "precision@5": 0.25, "precision@5_spread": 0.1} for dim in (2, 4)]
    scores.write_text(json.dumps({"rows": rows}))
    return Study(
        run,
        comparison=compare(run.model, gallery, queries, [10])
        | {"random": compare_random(run.model, gallery, queries, [10], draws=2)},
        answers=find_answers(run.model, gallery, queries.subset(list(range(6))), top=4),  # some of them wrong
        exciting=excited_by(run.model, images, 2, 3),
        made=make_exciting(run.model, 2, steps=1),
        scores=[read_scores(scores, ATTACK)],
        protocol="24 queries against 96 images.",
    )


@pytest.fixture(scope="module")
def page(study: Study) -> str:
    return run_page(study, draw_figures(study)).html()


def test_every_part_is_there(page: str) -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(headings) == 9
    assert {"Retrieval", "Scores", "Eigenfunctions", "Spectrum", "Training", "Configuration"} < set(headings)
    assert page.count("<svg") == 7
    for part in ("Eigenmap.load(", "effective rank", "healthy", "24 queries against 96 images.", "catalogue", "torch"):
        assert part in page


def test_it_says_the_numbers_of_the_run(study: Study, page: str) -> None:
    assert study.run is not None
    for row in study.comparison["ours"]:
        assert f"{row['map_over_found@10']:.3f}" in page and f"{row['precision@10']:.3f}" in page
    last = [record for record in study.run.history if "effective_rank" in record][-1]
    assert f"{last['effective_rank']:.1f} of 8" in page
    about = study.run.model.training
    for fact in (about["finished"], about["environment"]["python"], str(about["recipe"]["lr"])):
        assert fact in page


def test_names_cannot_become_markup(page: str) -> None:
    seen = Checker(page).seen
    tags = {tag for tag, _ in seen}
    assert "script" not in tags and "run" not in tags and "i" in tags  # <i> marks a wrong result
    assert "<script" not in page and "alert(&quot;x&quot;)" in page
    assert not any(name.startswith("on") for _, attributes in seen for name in attributes)
    assert "&lt;run&gt; &amp; more" in page


def test_nothing_is_asked_of_a_network(page: str) -> None:
    for _, attributes in Checker(page).seen:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/png;base64,"))
    names = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r'https?://[^"\s<)]+', page)) <= names
    assert "@import" not in page and "url(http" not in page


def test_ids_are_unique(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Checker(page).seen if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_light_dark_and_paper(page: str) -> None:
    assert page.count("@media screen and (prefers-color-scheme: dark)") == 2  # paper stays white
    assert "@media print" in page and "details::details-content" in page


def test_a_run_alone_makes_a_shorter_page(study: Study) -> None:
    bare = Study(study.run)
    text = run_page(bare, draw_figures(bare)).html()
    assert re.findall(r"<h2>(.*?)</h2>", text) == ["At a glance", "Spectrum", "Training", "Use it", "Configuration"]
    with pytest.raises(EigenmapError, match="run"):
        run_page(Study(None), {})


def test_models_that_know_less(study: Study) -> None:
    run = study.run
    assert run is not None
    model = read_run(run.folder).model
    model.alignment, model.training = replace(model.alignment, recall={}), {}
    bare = Study(replace(run, model=model, history=[]))
    text = run_page(bare, draw_figures(bare)).html()
    assert "not known" in text and "not recorded" in text and "metrics.jsonl" in text
    assert len(suggestions(model)) == 1 and "95 %" in next(iter(suggestions(model)))
    assert "suggest_dim(spectrum=0.95)" in text


def test_how_to_use_a_model_of_something_else_than_images(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    assert study.run is not None
    assert "eigenmap index" in usage_section(study.run).blocks[1]

    def none(model: Eigenmap) -> None:
        raise EigenmapError("This is a model of nodes.")

    monkeypatch.setattr(Eigenmap, "image", property(none), raising=False)
    python, shell = usage_section(study.run).blocks
    assert "model.encode(x, dim=8)" in python
    assert "FEATURES.npy" in shell and "eigenmap index" not in shell


def test_a_collapsed_run_is_called_so(study: Study) -> None:
    run = study.run
    assert run is not None
    last = {**[record for record in run.history if "effective_rank" in record][-1], "effective_rank": 1.01}
    assert health_row(replace(run, history=[last]))[-1] == "collapsed"  # type: ignore[list-item]


def test_tables_have_a_cell_for_every_length(study: Study) -> None:
    head, rows = comparison_rows(study.comparison, "precision@10")
    assert head == ["features", "2", "4", "full (of)"]
    assert {len(row) for row in rows} == {4} and rows[-1][-1].endswith("(784)")
    assert rows[0][1] == f"{study.comparison['ours'][0]['precision@10']:.3f}"
