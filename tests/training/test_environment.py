from __future__ import annotations

import json
import os

import torch

from eigenmap import __version__
from eigenmap.training.environment import environment, peak_memory_mb


def test_it_says_what_ran_where() -> None:
    found = environment()
    assert (found["eigenmap"], found["torch"]) == (__version__, torch.__version__)
    assert found["cores"] == os.cpu_count() and found["threads"] == torch.get_num_threads()
    assert json.loads(json.dumps(found)) == found


def test_memory_is_counted_in_megabytes() -> None:
    peak = peak_memory_mb()
    assert peak is not None and 50 < peak < 100_000
