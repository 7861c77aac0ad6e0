"""Tables 2, 3 and 4: the linear probe by batch size, by projector and by length of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from eigenmap.recipes import Recipe
from eigenmap.reproduce.ablations import ProjectorKind
from eigenmap.reproduce.methods import METHODS, Scale, recipe_of
from eigenmap.reproduce.runs import Probe, Runs

COMPARED = ("scl", "barlow-twins", "unordered")
"""Methods of tables 2 and 3."""
LAMBDAS = (0.0051, 0.0102, 0.0204)
"""Values of lambda tried for Barlow Twins, those of the authors' runs at 8,192, 4,096 and 2,048 features."""
BATCHES: dict[Scale, Sequence[int]] = {
    "paper": (256, 512, 1024, 2048),
    "small": (256, 512, 1024, 2048),
    "tiny": (16, 32),
}
WIDTHS: dict[Scale, Sequence[int]] = {"paper": (2048, 4096, 8192), "small": (2048, 4096, 8192), "tiny": (8, 16)}
EPOCHS: dict[Scale, Sequence[int]] = {"paper": (100, 200, 400), "small": (50, 100, 200), "tiny": (1, 2, 4)}
SWEEP_EPOCHS: dict[Scale, int] = {"paper": 100, "small": 20, "tiny": 1}
"""Epochs of the runs in tables 2 and 3."""
ABLATIONS: dict[ProjectorKind, str] = {
    "none": "no projector",
    "linear": "linear projector",
    "no-batchnorm": "projector without BatchNorm",
}


@dataclass(frozen=True)
class Run:
    """A run of a sweep: a method, and its differences from the run in table 1.

    Learning rates grow with the batch size, as in the paper.
    """

    method: str
    batch_size: int | None = None
    n_components: int | None = None
    epochs: int | None = None
    lambda_: float | None = None
    projector: ProjectorKind = "mlp"

    def recipe(self, scale: Scale) -> Recipe:
        """Return the recipe of the run; the projector's hidden layer is as wide as its output."""
        like = recipe_of(self.method, scale)
        batch = self.batch_size or like.batch_size
        changes: dict[str, Any] = {"batch_size": batch, "lr": like.lr * batch / like.batch_size}
        if self.n_components is not None:
            changes |= {"n_components": self.n_components, "hidden": self.n_components}
        if self.epochs is not None:
            # At the paper's scale, warm-up takes ten epochs for any length of training.
            warmup = like.warmup * like.epochs / self.epochs if scale == "paper" else like.warmup
            changes |= {"epochs": self.epochs, "warmup": warmup}
        if self.lambda_ is not None:
            changes["objective_options"] = {**like.objective_options, "lambda_": self.lambda_}
        return like.but(**changes)


class SweepRow(TypedDict):
    """One run of a table: the method, the value of the swept setting, and the probe."""

    method: str
    value: str
    lambda_: float | None
    chosen: bool
    probe: Probe


def table_2_runs(scale: Scale) -> list[Run]:
    """Return the runs by batch size."""
    k, epochs = WIDTHS[scale][0], SWEEP_EPOCHS[scale]
    return [
        Run(method, batch, k, epochs, lambda_)
        for batch in BATCHES[scale]
        for method in COMPARED
        for lambda_ in (LAMBDAS if method == "barlow-twins" else (None,))
    ]


def table_3_runs(scale: Scale) -> list[Run]:
    """Return the runs by width of the projector, then the paper's form with other projectors.

    Barlow Twins uses the authors' lambda at each width.
    """
    batch, epochs = BATCHES[scale][-1], SWEEP_EPOCHS[scale]
    strengths = dict(zip(WIDTHS[scale], reversed(LAMBDAS), strict=False))
    widths = [
        Run(method, batch, k, epochs, strengths[k] if method == "barlow-twins" else None)
        for k in WIDTHS[scale]
        for method in COMPARED
    ]
    return [*widths, *(Run("unordered", batch, WIDTHS[scale][0], epochs, projector=kind) for kind in ABLATIONS)]


def table_4_runs(scale: Scale) -> list[Run]:
    """Return the runs by length of training; the shortest are those of table 1."""
    return [Run(method, epochs=epochs) for epochs in EPOCHS[scale] for method in ("simsiam", "unordered")]


def table_2(scale: Scale, runs: Runs) -> list[SweepRow]:
    """Probe methods by batch size; Barlow Twins' lambda is chosen per batch size by held-out neighbours."""
    rows = [_row(run, f"batch {run.batch_size}", scale, runs) for run in table_2_runs(scale)]
    return chosen_rows(rows)


def table_3(scale: Scale, runs: Runs) -> list[SweepRow]:
    """Probe methods by width of the projector, and the paper's form with parts of the projector removed."""
    return [_row(run, projector_in_words(run), scale, runs) for run in table_3_runs(scale)]


def table_4(scale: Scale, runs: Runs) -> list[SweepRow]:
    """Probe SimSiam and the paper's unordered form by length of training."""
    return [_row(run, f"{run.epochs} epochs", scale, runs) for run in table_4_runs(scale)]


def projector_in_words(run: Run) -> str:
    """Describe the projector of a run of table 3."""
    return ABLATIONS[run.projector] if run.projector != "mlp" else f"projector {run.n_components}"


def chosen_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Mark the row with the best held-out neighbours among rows that differ only in lambda."""

    def held_out(row: SweepRow) -> float:
        found = row["probe"]["knn_held_out"]
        return -1.0 if found is None else found

    best: dict[tuple[str, str], SweepRow] = {}
    for row in rows:
        key = row["method"], row["value"]
        if key not in best or held_out(row) > held_out(best[key]):
            best[key] = row
    return [SweepRow(**{**row, "chosen": row is best[row["method"], row["value"]]}) for row in rows]


def _row(run: Run, value: str, scale: Scale, runs: Runs) -> SweepRow:
    strength = "" if run.lambda_ is None else f", lambda {run.lambda_:g}"
    runs.say(f"{METHODS[run.method].title}, {value}{strength} ...")
    probe = runs.probe(run.recipe(scale), run.projector)
    return SweepRow(method=METHODS[run.method].title, value=value, lambda_=run.lambda_, chosen=True, probe=probe)
