"""Logging: the function that long tasks call with lines for a person to read.

The same lines go to Python's logger "eigenmap", at level INFO, for programs that collect logs:

    logging.basicConfig(level=logging.INFO)
    em.fit_images("PHOTOS/", progress=False)      # INFO:eigenmap:Training is complete; ordering the features takes ...
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

LogFunction: TypeAlias = Callable[[str], None]
"""Called with one line at a time."""

LOGGER = logging.getLogger("eigenmap")
LOGGER.addHandler(logging.NullHandler())  # silent unless the program sets logging up


def logged(say: LogFunction | None = None) -> LogFunction:
    """Return a function that sends each line to the logger, and to `say` if that is given.

    >>> lines = []
    >>> logged(lines.append)("Training is complete.")
    >>> lines
    ['Training is complete.']
    """

    def log(line: str) -> None:
        LOGGER.info("%s", line)
        if say is not None:
            say(line)

    return log
