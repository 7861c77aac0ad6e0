"""Logging: the function that long tasks call with lines for a person to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

LogFunction: TypeAlias = Callable[[str], None]
"""Called with one line at a time."""
