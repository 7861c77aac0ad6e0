"""Numbers and values in sentences."""

from __future__ import annotations

from reprlib import Repr

MOST_DIGITS = 4_300
"""Longest whole number that Python converts to text by default and back."""
_TOO_LONG: int = 10**MOST_DIGITS


class _Brief(Repr):
    """Short code for values, also for whole numbers that Python does not convert to text."""

    def repr_int(self, x: int, level: int) -> str:
        """Shorten a whole number."""
        if has_too_many_digits(x):
            return f"a whole number of more than {MOST_DIGITS:,} digits"
        return super().repr_int(x, level)


_brief = _Brief()
_brief.maxstring = _brief.maxother = 100


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things in words.

    >>> count(1, "image"), count(2000, "image"), count(0, "class", "classes")
    ('1 image', '2,000 images', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def has_too_many_digits(number: int) -> bool:
    """Tell whether a whole number is too long for Python to convert it to text.

    >>> has_too_many_digits(10**4_299), has_too_many_digits(-(10**4_300))
    (False, True)
    """
    return abs(number) >= _TOO_LONG


def shortened(value: object) -> str:
    """Return a value as code, for an error message; the middle of a long one is left out, and what is nested deeply.

    >>> shortened("label"), len(shortened("x" * 1000)), shortened(list(range(100)))
    ("'label'", 100, '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _brief.repr(value)
