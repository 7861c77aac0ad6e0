"""Numbers in sentences."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things in words.

    >>> count(1, "image"), count(2000, "image"), count(0, "class", "classes")
    ('1 image', '2,000 images', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
