"""Rank of this process within its run, from environment variables."""

from __future__ import annotations

import os


def is_first_process() -> bool:
    """Tell whether this process is the only one or the first of its run; only that one prints and writes results.

    torchrun numbers all processes in RANK. Otherwise NODE_RANK is the machine and LOCAL_RANK the process on it.
    """
    numbers = [os.environ.get("RANK")] if "RANK" in os.environ else map(os.environ.get, ("NODE_RANK", "LOCAL_RANK"))
    return not any(number not in (None, "", "0") for number in numbers)
