from __future__ import annotations

import json
from pathlib import Path

import pytest

from eigenmap import EigenmapError
from eigenmap.cli.figures.studies import Asked, check_asked, default_top, examine, read_series


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a=b.json"
    path.write_text(json.dumps({"rows": [{"dim": 2, "accuracy": 0.5}]}))
    return path


def test_files_may_have_names_of_their_own(file: Path) -> None:
    series = read_series([str(file), f"mine={file}", f"={file}"[1:]])
    assert [scores.name for scores in series] == ["a=b", "mine", "a=b"]
    with pytest.raises(EigenmapError, match=r"x\.json.*read"):
        read_series(["mine=x.json"])


def test_without_a_run_there_are_only_scores(file: Path) -> None:
    study = examine(None, Asked(["scores"], scores=[str(file)], metrics=["accuracy"]), "cpu")
    assert study.run is None and len(study.scores) == 1 and study.metrics == ["accuracy"]


def test_little_data_is_ranked_less_deep() -> None:
    assert [default_top(n) for n in (2000, 1999, 200, 19, 2, 1)] == [1000, 100, 100, 9, 1, 1]


def test_options_that_go_together() -> None:
    check_asked(Asked([], data=Path("x"), queries=Path("y"), query_labels=Path("z")))
    with pytest.raises(EigenmapError, match="--data"):
        check_asked(Asked([], queries=Path("y")))
