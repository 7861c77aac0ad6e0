"""JSON format of results: indented by one, with every list of numbers on one line."""

from __future__ import annotations

import json
from typing import Any


def text(value: Any, indent: int = 0) -> str:
    r"""Return a value as JSON, without a line break at the end.

    >>> print(text({"a": [1, 2.5, None], "b": [{"c": []}], "d": {}}))
    {
     "a": [1, 2.5, null],
     "b": [
      {
       "c": []
      }
     ],
     "d": {}
    }
    """
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(str(name))}: {text(item, indent + 1)}" for name, item in value.items()]
        return _block("{", items, "}", indent)
    if isinstance(value, (list, tuple)) and not all(_is_number(item) for item in value):
        return _block("[", [text(item, indent + 1) for item in value], "]", indent)
    return json.dumps(value)


def _block(begin: str, items: list[str], end: str, indent: int) -> str:
    inner = ",\n".join(" " * (indent + 1) + item for item in items)
    return f"{begin}\n{inner}\n{' ' * indent}{end}"


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number or a placeholder for one."""
    return value is None or isinstance(value, (bool, int, float))
