import pytest

from eigenmap.core.rows import spread


@pytest.mark.parametrize("count", [1, 7, 1000, 2**25 + 4])
def test_rows_are_spread_from_the_first_to_the_last(count):
    rows = spread(count, 100)
    assert len(rows) == min(count, 100)
    assert rows[0] == 0 and rows[-1] == count - 1
    assert len(rows.unique()) == len(rows)
