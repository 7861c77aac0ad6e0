from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from eigenmap.data.images.decode import Pixels, UnreadableImageError
from eigenmap.data.images.workers import decode_in_order, processors


def decode(number: int) -> Pixels:
    if number % 5 == 3:
        raise UnreadableImageError(f"{number} is bad")
    return np.full((1, 2, 2), number, np.uint8)


def test_in_order_and_errors_in_their_place() -> None:
    results = list(decode_in_order(range(20), decode, workers=3))
    for number, result in enumerate(results):
        if number % 5 == 3:
            assert isinstance(result, UnreadableImageError) and str(result) == f"{number} is bad"
        else:
            assert not isinstance(result, UnreadableImageError) and (result == number).all()


def test_few_are_decoded_before_they_are_asked_for() -> None:
    asked = 0

    def numbers() -> Iterator[int]:
        nonlocal asked
        for number in range(1000):
            asked += 1
            yield number

    results = decode_in_order(numbers(), decode, workers=2, ahead=7)
    for _ in range(10):
        next(results)
    assert asked <= 10 + 7
    results.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]


def test_other_errors_are_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        list(decode_in_order([0], lambda number: decode(1 // number), workers=1))


def test_processors() -> None:
    assert processors() >= 1
