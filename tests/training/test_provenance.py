from __future__ import annotations

import json
import os

import pytest
import torch

from eigenmap import __version__
from eigenmap.recipes.graph import GRAPH
from eigenmap.training import TrainingResult
from eigenmap.training.provenance import device_name, environment, peak_memory_mb, training_provenance


def test_the_record_names_software_and_machine() -> None:
    found = environment()
    assert (found["eigenmap"], found["torch"]) == (__version__, torch.__version__)
    assert found["cores"] == os.cpu_count() and found["threads"] == torch.get_num_threads()
    assert json.loads(json.dumps(found)) == found


@pytest.mark.parametrize(("threads", "words"), [(1, "1 thread)"), (2, "2 threads)")])
def test_one_thread_is_singular(threads: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert device_name(torch.device("cpu")).endswith(words)


def test_memory_is_counted_in_megabytes() -> None:
    peak = peak_memory_mb()
    assert peak is not None and 50 < peak < 100_000


def test_the_history_of_a_run_fits_into_json() -> None:
    recipe = GRAPH.but(objective_options={"scale": 3.0})
    found = training_provenance(recipe, 7, TrainingResult(20, 1.26, []), 0.54, torch.device("cpu"))
    assert (found["seed"], found["steps"], found["seconds"], found["alignment_seconds"]) == (7, 20, 1.3, 0.5)
    assert found["recipe"]["width"] == GRAPH.width and found["recipe"]["objective_options"] == {"scale": 3.0}
    assert found["final"] == {} and found["device"].startswith("cpu")
    assert json.loads(json.dumps(found)) == found
