"""Curves from the files of `eigenmap evaluate ... --json FILE`, with one or several seeds per series.

    series = [read_scores(Path(file), "ordered") for file in ("seed-0.json", "seed-1.json", "seed-2.json")]
    save(length_curves(panels(series, "map_over_found@1000")), Path("figures/scores"))

Any JSON file with a list `rows` of objects that contain an integer `dim` and measured numbers can be drawn. Files of
one name are runs of one method: their mean is drawn, with the standard deviation over them as a band. A single file
shows its own spread (`<metric>_spread`, or `spread` beside `accuracy`). Rows that differ in `share`, the part of the
labels used to fit a probe, get one panel each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from eigenmap.core.arguments import is_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import read_json
from eigenmap.figures.curves import Curve, Panel
from eigenmap.figures.style import numbered_key

NOT_METRICS = {"dim", "share", "labels", "spread", "runs", "seed"}
PREFERRED = ("map_over_found@", "precision@", "accuracy")
"""Default metrics, if they were measured, each at its largest cut-off."""


@dataclass(frozen=True)
class Scores:
    """One file: name of its series, and one row per length."""

    name: str
    rows: Sequence[Mapping[str, float]]
    path: Path

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        return [name for name in names if name not in NOT_METRICS and not name.endswith("_spread")]

    @property
    def shares(self) -> list[float | None]:
        """Shares of the labels used to fit probes; [None] if rows do not record it."""
        return list(dict.fromkeys(row.get("share") for row in self.rows))

    def values(self, metric: str, share: float | None) -> dict[int, float]:
        """Return the metric by length."""
        return {int(row["dim"]): row[metric] for row in self.rows if row.get("share") == share and metric in row}

    def spread(self, metric: str, share: float | None) -> dict[int, float]:
        """Return the spread of the metric by length, if the file has one."""
        name = "spread" if metric == "accuracy" else f"{metric}_spread"
        return self.values(name, share)


def read_scores(path: Path, name: str | None = None) -> Scores:
    """Read one file; its series is named `name`, by default after the file."""
    try:
        content = read_json(path)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise EigenmapError(
            f"{path} is not a JSON file; give one written by `eigenmap evaluate ... --json FILE`."
        ) from error
    rows = content.get("rows") if isinstance(content, dict) else None
    if not isinstance(rows, list) or not rows or not all(map(_is_row, rows)):
        raise EigenmapError(
            f"{path} contains no scores by length: it needs a list `rows` whose objects each have a `dim`, "
            "as written by `eigenmap evaluate ... --json FILE`."
        )
    return Scores(name or path.stem, [_numbers(row) for row in rows], path)


def default_metrics(series: Sequence[Scores]) -> list[str]:
    """Return the metrics drawn by default: mAP and precision, or accuracy; else the first one."""
    known = _common_metrics(series)
    chosen = [max(found, key=_top) for prefix in PREFERRED if (found := [m for m in known if m.startswith(prefix)])]
    return chosen or known[:1]


def panels(series: Sequence[Scores], metric: str) -> list[Panel]:
    """Return the curves of one metric, one panel per share of the labels."""
    known = _common_metrics(series)
    if metric not in known:
        raise EigenmapError(f"{metric} is not in all of these files; they contain {', '.join(known) or 'nothing'}.")
    named: dict[str, list[Scores]] = {}
    for scores in series:
        named.setdefault(scores.name, []).append(scores)
    shares = dict.fromkeys(share for scores in series for share in scores.shares)
    return [
        Panel(
            "" if share is None else f"{100 * share:g} % of the labels",
            words_for(metric),
            [
                _curve(numbered_key(number), name, files, metric, share)
                for number, (name, files) in enumerate(named.items())
                if any(share in scores.shares for scores in files)
            ],
        )
        for share in shares
    ]


def words_for(metric: str) -> str:
    """Return the axis label of a metric, including its denominator.

    >>> words_for("map_over_found@1000"), words_for("precision@100"), words_for("accuracy")
    ('mAP, over found in the top 1,000', 'precision of the top 100', 'accuracy')
    """
    kind, _, top = metric.partition("@")
    if not top.isdigit():
        return metric.replace("_", " ")
    count = f"{int(top):,}"
    known = {
        "map_over_found": f"mAP, over found in the top {count}",
        "map_over_relevant": f"mAP, over all relevant, top {count}",
        "precision": f"precision of the top {count}",
    }
    return known.get(kind, f"{kind.replace('_', ' ')}, top {count}")


def _curve(key: str, name: str, files: Sequence[Scores], metric: str, share: float | None) -> Curve:
    """Return one series: a single file, or the mean of several."""
    if len(files) == 1:
        return Curve(key, name, files[0].values(metric, share), files[0].spread(metric, share))
    measured = [scores.values(metric, share) for scores in files]
    # A length missing in one file would be averaged over fewer runs than the others.
    dims = [dim for dim in measured[0] if all(dim in values for values in measured)]
    if not dims:
        raise EigenmapError(f"The files of {name} have no length in common and cannot be averaged.")
    drawn = {dim: [values[dim] for values in measured] for dim in dims}
    return Curve(
        key,
        f"{name} ({len(files)} runs)",
        {dim: mean(values) for dim, values in drawn.items()},
        {dim: stdev(values) for dim, values in drawn.items()},
    )


def _common_metrics(series: Sequence[Scores]) -> list[str]:
    if not series:
        raise EigenmapError("Nothing to draw: give at least one file of scores.")
    return [metric for metric in series[0].metrics if all(metric in scores.metrics for scores in series)]


def _top(metric: str) -> int:
    top = metric.partition("@")[2]
    return int(top) if top.isdigit() else 0


def _is_row(row: object) -> bool:
    if not isinstance(row, dict):
        return False
    dim = row.get("dim")
    return isinstance(dim, (int, float)) and is_number(dim) and dim >= 1 and dim == int(dim)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a row, without text."""
    return {name: value for name, value in row.items() if isinstance(value, (int, float)) and is_number(value)}
