"""Extension of griffe, which reads docstrings for the site: a section "Example:" is shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Names the section as griffe expects it; ours have one example each."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section, and leave out the directions of doctest."""
        if obj.docstring is not None:
            text = re.sub(r"^(\s*)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"\s+# doctest: .*$", "", text, flags=re.MULTILINE)
