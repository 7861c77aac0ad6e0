from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eigenmap.detection.rle import from_text, mask_of, runs_of, to_text


@given(seed=st.integers(0, 10**6), height=st.integers(1, 40), width=st.integers(1, 40), share=st.floats(0, 1))
def test_masks_survive(seed: int, height: int, width: int, share: float) -> None:
    mask = np.random.default_rng(seed).random((height, width)) < share
    runs = runs_of(mask)
    assert sum(runs) == mask.size and sum(runs[1::2]) == mask.sum() and min(runs[1:], default=1) > 0
    assert from_text(to_text(runs)) == runs
    np.testing.assert_array_equal(mask_of(runs, height, width), mask)


def test_text_is_that_of_cocos_tools() -> None:
    """By pycocotools 2.0.11, mask.encode: rows 2 to 4 of columns 1 and 2 of 9 x 6 pixels, then all of them."""
    mask = np.zeros((9, 6), dtype=bool)
    mask[2:5, 1:3] = True
    assert runs_of(mask) == [11, 3, 6, 3, 31]
    assert to_text(runs_of(mask)) == ";360i0"
    assert to_text(runs_of(np.ones((9, 6), dtype=bool))) == "0f1"
