from __future__ import annotations

from eigenmap.core.words import count, shortened


def test_one_is_singular_and_thousands_are_grouped() -> None:
    assert [count(number, "item") for number in (0, 1, 2, 12345)] == ["0 items", "1 item", "2 items", "12,345 items"]
    assert [count(number, "query", "queries") for number in (1, 3)] == ["1 query", "3 queries"]


def test_values_are_shortened() -> None:
    assert shortened("label") == "'label'" and shortened(0.5) == "0.5"
    assert len(shortened("x" * 5000)) <= 100 and "..." in shortened("x" * 5000)
    nested: list[object] = []
    for _ in range(5000):  # repr would exceed the depth of recursion
        nested = [nested]
    assert len(shortened(nested)) < 100
