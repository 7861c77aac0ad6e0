"""Video: two clips of a sequence show the same object elsewhere, in different light.

A handwritten digit from scikit-learn drifts over a 12 x 12 canvas with a shaded background; light and shade change from
clip to clip. A clip is four frames, 576 pixels. What two clips of a sequence share is the digit.
"""

import numpy as np
from sklearn.datasets import load_digits

from examples.common import Floats, compare, show

SIZE, FRAMES = 12, 4
TITLE = "Video clips, ten digits, 16 features"


def clip(digit: Floats, rng: np.random.Generator) -> Floats:
    """Return four frames of a digit that drifts from a random place, in random light."""
    rows, columns = np.mgrid[:SIZE, :SIZE] / SIZE
    shade = 30 * (rng.normal() * rows + rng.normal() * columns)
    light, place, drift = rng.uniform(0.5, 1.5), rng.integers(1, 4, 2), rng.integers(-1, 2, 2)
    frames = []
    for t in range(FRAMES):
        frame = shade + rng.normal(size=(SIZE, SIZE))
        y, x = np.clip(place + drift * (t // 2), 0, SIZE - 8)
        frame[y : y + 8, x : x + 8] += light * digit.reshape(8, 8)
        frames.append(frame.ravel())
    return np.concatenate(frames)


def main() -> dict[str, float]:
    """Learn from pairs of clips, then classify digits by single clips."""
    rng = np.random.default_rng(0)
    digits, labels = load_digits(return_X_y=True)
    first, second, test = (np.stack([clip(digit, rng) for digit in digits]) for _ in range(3))
    return compare(first, second, test, labels, dim=16)


if __name__ == "__main__":
    show(TITLE, main())
