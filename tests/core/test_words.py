from __future__ import annotations

from eigenmap.core.words import count, has_too_many_digits, shortened


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


def test_a_whole_number_too_long_for_text_is_described() -> None:
    assert not has_too_many_digits(10**4299) and shortened(10**4299)
    for number in (10**4300, -(10**5000)):
        assert has_too_many_digits(number) and "4,300 digits" in shortened(number)
        assert "4,300 digits" in shortened([number])
