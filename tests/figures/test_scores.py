"""Curves are what the files hold: as they are, or the mean and deviation of several."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.figures.curves import length_curves
from eigenmap.figures.scores import default_metrics, panels, read_scores, words_for


def file(folder: Path, name: str, rows: object) -> Path:
    path = folder / name
    path.write_text(json.dumps({"measured": "retrieval", "rows": rows}))
    return path


def retrieval_rows(base: float) -> list[dict[str, float]]:
    return [
        {"dim": dim, "map_over_found@10": base, "map_over_found@100": base + dim / 100, "precision@100": base / 2}
        for dim in (2, 4, 8)
    ]


def test_one_file_is_drawn_as_it_is(tmp_path: Path) -> None:
    scores = read_scores(file(tmp_path, "mine.json", retrieval_rows(0.5)))
    assert default_metrics([scores]) == ["map_over_found@100", "precision@100"]
    (panel,) = panels([scores], "map_over_found@100")
    (curve,) = panel.curves
    assert (curve.name, curve.values, curve.spread) == ("mine", {2: 0.52, 4: 0.54, 8: 0.58}, {})
    assert panel.metric == "mAP, over found in the top 100"


def test_files_of_one_name_are_averaged_where_all_have_a_length(tmp_path: Path) -> None:
    values = (0.2, 0.5, 0.8)
    series = [read_scores(file(tmp_path, f"{v}.json", retrieval_rows(v)), "ours") for v in values]
    series[1] = read_scores(file(tmp_path, "short.json", retrieval_rows(0.5)[:2]), "ours")
    series.append(read_scores(file(tmp_path, "other.json", retrieval_rows(0.1))))
    (panel,) = panels(series, "map_over_found@10")
    ours, other = panel.curves
    assert ours.name == "ours (3 runs)" and other.name == "other"
    assert ours.values == {2: pytest.approx(0.5), 4: pytest.approx(0.5)}
    deviation = math.sqrt(sum((v - 0.5) ** 2 for v in values) / 2)
    assert ours.spread == {2: pytest.approx(deviation), 4: pytest.approx(deviation)}
    (band,) = length_curves([panel]).axes[0].collections
    assert [2, round(0.5 + deviation, 6)] in band.get_paths()[0].vertices.round(6).tolist()


def test_a_probe_of_nodes_has_a_panel_for_each_share_and_its_own_spread(tmp_path: Path) -> None:
    rows = [
        {"dim": dim, "share": share, "labels": 5, "accuracy": share + dim / 100, "spread": 0.02, "validation": 0.1}
        for share in (0.01, 0.1)
        for dim in (8, 16)
    ]
    scores = read_scores(file(tmp_path, "cora.json", rows))
    assert default_metrics([scores]) == ["accuracy"]
    one, ten = panels([scores], "accuracy")
    assert (one.title, ten.title, one.metric) == ("1 % of the labels", "10 % of the labels", "accuracy")
    assert ten.curves[0].values == {8: pytest.approx(0.18), 16: pytest.approx(0.26)}
    assert ten.curves[0].spread == {8: 0.02, 16: 0.02}
    figure = length_curves([one, ten])
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_spreads_of_a_file_belong_to_their_metric(tmp_path: Path) -> None:
    rows = [{"dim": dim, "precision@5": 0.5, "precision@5_spread": 0.1, "note": "x"} for dim in (1, 2)]
    scores = read_scores(file(tmp_path, "random.json", rows))
    assert scores.metrics == ["precision@5"]
    assert panels([scores], "precision@5")[0].curves[0].spread == {1: 0.1, 2: 0.1}


@pytest.mark.parametrize(
    "content",
    ["", "[1, 2]", "{}", '{"rows": []}', '{"rows": [{"x": 1}]}', '{"rows": [{"dim": 0}]}', '{"rows": [{"dim": "2"}]}'],
)
def test_other_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(EigenmapError, match=r"JSON|scores"):
        read_scores(path)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"missing\.json.*read"):
        read_scores(tmp_path / "missing.json")
    with pytest.raises(EigenmapError, match="one file"):
        default_metrics([])
    scores = read_scores(file(tmp_path, "mine.json", retrieval_rows(0.5)))
    with pytest.raises(EigenmapError, match=r"accuracy.*map_over_found@10"):
        panels([scores], "accuracy")
    apart = [read_scores(file(tmp_path, f"{d}.json", [{"dim": d, "precision@5": 0.5}]), "x") for d in (2, 4)]
    with pytest.raises(EigenmapError, match="length"):
        panels(apart, "precision@5")


def test_words_keep_the_denominator() -> None:
    assert words_for("map_over_relevant@1000") == "mAP, over all relevant, top 1,000"
    assert words_for("recall@10") == "recall, top 10"
    assert words_for("linear_probe") == "linear probe"
