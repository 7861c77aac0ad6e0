"""Training and measurements of `eigenmap demo`, on the catalogue as it is and posed.

Our models take as many steps as the stored rival did, so that both had the same budget, or fewer if the time limit
requires it. Settings were chosen on the catalogue's validation images; the queries are used for measurement only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eigenmap import recipes
from eigenmap.core.addresses import require_path
from eigenmap.core.clock import counted_from
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import require_writable
from eigenmap.core.folders import require_free
from eigenmap.core.logging import LogFunction, logged
from eigenmap.core.words import count
from eigenmap.data import ImageSet
from eigenmap.data.images import catalogue
from eigenmap.data.images.catalogue import SplitName
from eigenmap.demo.methods import Method, compare, stored_rival
from eigenmap.evaluation.baselines import labels_of
from eigenmap.figures.answers import find_answers
from eigenmap.figures.excitation import ExcitedFeature, excited_by
from eigenmap.figures.gallery import Answers
from eigenmap.fitting.images import fit_images
from eigenmap.model import Eigenmap
from eigenmap.training.metrics import Record, read
from eigenmap.training.provenance import environment
from eigenmap.training.run import METRICS_FILE as METRICS_FILE

SCENES = ("clean", "posed")
STEPS = 450
"""Training steps of each model and of the rival."""
SHOWN_LENGTHS = (2, 4, 8, 16, 32)
SHOWN_CLASSES = ("t-shirt", "coat", "sandal", "bag")
FEW_STEPS = 200
"""With fewer steps there is little to see, and the demo says so."""
SHORTEST_S = 1.0
"""Seconds that are left for training at least: one step is always taken."""
RECIPE = recipes.get("catalogue")
"""Training settings of all models, including the rival (which has another objective)."""

Load = Callable[[SplitName, bool], ImageSet]


@dataclass(frozen=True)
class Scene:
    """The catalogue as it is ("clean") or posed: model, training log, scores of every method, examples.

    `exciting` are the gallery pictures with the largest and smallest values of the first features.
    """

    name: str
    model: Eigenmap
    history: list[Record]
    methods: Mapping[str, Method]
    answers: list[Answers]
    exciting: list[ExcitedFeature]


@dataclass(frozen=True)
class Demo:
    """All results of the demo."""

    scenes: dict[str, Scene]
    rival: dict[str, Any]
    seed: int
    seconds: dict[str, float]
    environment: dict[str, Any]

    @property
    def steps(self) -> int:
        """Training steps of each model; of the one with fewer, if time ended one of them early."""
        return min(scene.history[-1]["step"] for scene in self.scenes.values())


def run(
    out: Path,
    *,
    minutes: float = 3.5,
    steps: int | None = None,
    seed: int = 0,
    force: bool = False,
    progress: bool = True,
    say: LogFunction | None = None,
    load: Load = catalogue.load,
) -> Demo:
    """Train two models, measure them and their rivals, and write everything to `out`.

    Args:
        out: folder for report.html, demo.json, figures/ and the models in clean/ and posed/.
        minutes: time limit for training both models; if `STEPS` steps do not fit, fewer are taken.
        steps: exact number of steps per model, however long they take.
        seed: seed of everything random.
        force: write to `out` even if it is not empty.
        progress: show a progress bar while training.
        say: called with status messages.
        load: source of the images, `catalogue.load` or similar.

    """
    from eigenmap.demo.page import write_all

    say = logged(say)
    _check(out, force, minutes, steps)
    began = time.perf_counter()
    rival = stored_rival()
    galleries = {name: load("train", name == "posed") for name in SCENES}
    models = {}
    loaded = time.perf_counter()
    for number, name in enumerate(SCENES, start=1):
        say(f"Training on the {name} catalogue ({number} of {len(SCENES)}) ...")
        left = 60 * minutes - (time.perf_counter() - loaded)
        share = max(left, SHORTEST_S) / (len(SCENES) - number + 1)
        with counted_from(None):  # `share` is what is left now
            models[name] = fit_images(
                galleries[name],
                recipe=RECIPE,
                out=out / name,
                steps=steps or STEPS,
                minutes=None if steps else share / 60,
                seed=seed,
                force=force,
                progress=progress,
                say=say,
            )
        if steps is None:
            _note_steps(models[name], say)
    trained = time.perf_counter()
    say("Measuring retrieval ...")
    scenes = {}
    for name, model in models.items():
        queries, history = load("query", name == "posed"), read(out / name / METRICS_FILE)
        scenes[name] = score_model(name, model, galleries[name], queries, rival, history)
    seconds = {"training": trained - began, "measuring": time.perf_counter() - trained}
    demo = Demo(scenes, rival, seed, seconds, environment())
    say("Drawing the report ...")
    write_all(demo, out)
    return demo


def score_model(
    name: str, model: Eigenmap, gallery: ImageSet, queries: ImageSet, rival: Mapping[str, Any], history: list[Record]
) -> Scene:
    """Score a model and its rivals on the queries, and collect a few examples."""
    methods = compare(model, gallery, queries)
    methods["random"] = Method("random", rival["scenes"][name])
    return Scene(name, model, history, methods, examples(model, gallery, queries), excited_by(model, gallery))


def examples(model: Eigenmap, gallery: ImageSet, queries: ImageSet) -> list[Answers]:
    """Return what the first query of some classes finds at several lengths; chosen by class, not by result."""
    asked, names = labels_of(queries).matrix.int().argmax(1).tolist(), labels_of(queries).names
    chosen = [asked.index(names.index(label)) for label in SHOWN_CLASSES if names.index(label) in asked]
    return find_answers(model, gallery, queries.subset(chosen), SHOWN_LENGTHS)


def _note_steps(model: Eigenmap, say: LogFunction) -> None:
    """Say that time ended training early, if it did."""
    steps = model.training["steps"]
    if steps < STEPS:
        little = ", with which there is little to see: allow more minutes" if steps < FEW_STEPS else ""
        say(f"Time for {count(steps, 'step')} of the rival's {STEPS:,}{little}.")


def _check(out: Path, force: bool, minutes: float, steps: int | None) -> None:
    """Refuse invalid arguments before anything is computed."""
    require_path(out)
    require_free(out, force)
    if not minutes > 0:
        raise EigenmapError(f"minutes must be above 0, not {minutes}.")
    if steps is not None and steps < 1:
        raise EigenmapError(f"steps must be at least 1, not {steps}.")
    require_writable(out / "report.html")
