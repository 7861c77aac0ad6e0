from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

N, K = 300, 12


@pytest.fixture(scope="session")
def codes() -> NDArray[np.float32]:
    """Codes whose features fall in size, as ordered ones do; two are equal and one is nothing."""
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(N, K)) * 0.8 ** np.arange(K)).astype(np.float32)
    rows[17] = rows[5]
    rows[40] = 0
    return rows


@pytest.fixture(scope="session")
def queries(codes: NDArray[np.float32]) -> NDArray[np.float32]:
    noise = np.random.default_rng(1).normal(scale=0.1, size=(8, K)).astype(np.float32)
    picked: NDArray[np.float32] = codes[5:13] + noise
    picked[0] = codes[5]
    return picked


@pytest.fixture(scope="session")
def ids() -> list[str]:
    return [f"photo {number}" for number in range(N)]
