"""Table rows: two copies of a row, each with some of its cells replaced by those of other rows.

The data are scikit-learn's breast cancer diagnoses: 569 rows of 30 measurements, with 30 random columns added. What
survives the replacement is what several columns have in common.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from examples.common import Floats, compare, show

CORRUPTED, COPIES = 0.4, 6
TITLE = "Table rows, two diagnoses, 2 features"


def corrupted(rows: Floats, rng: np.random.Generator) -> Floats:
    """Return the rows with a share of their cells replaced by random cells of the same column."""
    other = np.stack([rng.permutation(column) for column in rows.T], 1)
    return np.where(rng.uniform(size=rows.shape) < CORRUPTED, other, rows)


def main() -> dict[str, float]:
    """Learn from pairs of corrupted rows, then classify diagnoses by intact rows."""
    rng = np.random.default_rng(0)
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = np.hstack([rows, rng.standard_t(4, size=rows.shape)])
    many = np.tile(rows, (COPIES, 1))
    return compare(corrupted(many, rng), corrupted(many, rng), rows, labels, dim=2)


if __name__ == "__main__":
    show(TITLE, main())
