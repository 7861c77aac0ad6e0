"""Audio: two crops of a recording share its source.

Twelve sources, each with its own pitch and timbre, are recorded with a random gain and echo, and with hum and coloured
noise that change from moment to moment. A crop is half a second at 2 kHz, represented by the logarithm of its spectrum
in 120 bands.
"""

import numpy as np

from examples.common import Floats, compare, show

RATE, LENGTH, BANDS, SOURCES = 2000, 1000, 120, 12
TITLE = "Crops of recordings, twelve sources, 8 features"


def crop(pitch: float, timbre: Floats, rng: np.random.Generator) -> Floats:
    """Return the log spectrum of half a second of a source at a random moment."""
    t = (np.arange(LENGTH) + rng.integers(0, 10 * RATE)) / RATE
    vibrato = pitch * (t + 0.002 * np.sin(2 * np.pi * rng.uniform(3, 6) * t))
    sound = sum(level * np.sin(2 * np.pi * (k + 1) * vibrato) for k, level in enumerate(timbre))
    noise = np.cumsum(rng.normal(size=LENGTH)) * rng.uniform(0, 0.2) + rng.normal(size=LENGTH) * rng.uniform(0.3, 3)
    hum = rng.uniform(0, 4) * np.sin(2 * np.pi * rng.uniform(40, 900) * t)
    power = np.abs(np.fft.rfft(rng.uniform(0.3, 3) * (sound + noise + hum) * np.hanning(LENGTH))) ** 2
    return np.log(power[1 : 4 * BANDS + 1].reshape(BANDS, 4).sum(1) + 1e-3)


def main() -> dict[str, float]:
    """Learn from pairs of crops, then classify sources by single crops."""
    rng = np.random.default_rng(0)
    sources = [(rng.uniform(80, 240), rng.uniform(0, 1, 5)) for _ in range(SOURCES)]
    labels = rng.integers(0, SOURCES, 1500)
    first, second, test = (np.stack([crop(*sources[label], rng) for label in labels]) for _ in range(3))
    return compare(first, second, test, labels, dim=8)


if __name__ == "__main__":
    show(TITLE, main())
