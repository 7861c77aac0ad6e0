from __future__ import annotations

import pytest

from eigenmap.cli.lengths import parse_dim, parse_funnel
from eigenmap.errors import EigenmapError


def test_lengths_are_read_as_they_are_written() -> None:
    assert [parse_dim(text) for text in (None, "auto", "16", "-3")] == [None, "auto", 16, -3]
    assert parse_funnel(None) is None
    assert parse_funnel("8:2000,32:200, 256:10") == [(8, 2000), (32, 200), (256, 10)]


@pytest.mark.parametrize("text", ["", "8", "8:", "8:2:3", "a:b", "8:20;16:10"])
def test_what_is_no_funnel_is_shown_one(text: str) -> None:
    with pytest.raises(EigenmapError, match="a funnel is written as"):
        parse_funnel(text)


@pytest.mark.parametrize("text", ["", "x", "1.5", "1e3"])
def test_what_is_no_length_is_refused(text: str) -> None:
    with pytest.raises(EigenmapError, match="dim must be a whole number or auto"):
        parse_dim(text)
