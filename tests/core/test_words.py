from __future__ import annotations

from eigenmap.core.words import count


def test_one_is_singular_and_thousands_are_grouped() -> None:
    assert [count(number, "item") for number in (0, 1, 2, 12345)] == ["0 items", "1 item", "2 items", "12,345 items"]
    assert [count(number, "query", "queries") for number in (1, 3)] == ["1 query", "3 queries"]
