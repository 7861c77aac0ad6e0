"""Sample data for the examples in the documentation: small, deterministic, and real where possible.

Each function writes to a folder; with `quick` it writes less, for tests.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np


def photos(folder: Path, quick: bool = False) -> None:
    """Write `photos/CLASS/NUMBER.png`, garments of the embedded catalogue, and `new.png`, another garment."""
    from PIL import Image

    from eigenmap.data.images import catalogue
    from eigenmap.evaluation.baselines import labels_of

    images = catalogue.load("train")
    labels = labels_of(images)
    for row in range(120 if quick else 4_000):
        name = labels.names[int(labels.matrix[row].int().argmax())]
        place = folder / "photos" / name
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(images.pixels[row]).squeeze()).save(place / f"{row:05}.png")
    Image.fromarray(np.asarray(catalogue.load("query").pixels[0]).squeeze()).save(folder / "new.png")


def docstrings(folder: Path, quick: bool = False) -> None:
    """Write `summaries.npy`, `texts.npy` and `names.txt`: documentation of numpy, scipy and scikit-learn as vectors.

    Row i belongs to one function: the first sentence of its docstring, and the rest. Vectors are hashed words with
    TF-IDF weights, randomly projected to 256 numbers, in place of a language model, which could not be downloaded.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.random_projection import GaussianRandomProjection

    found = dict(sorted(_documented().items()))
    names = list(found)[: 400 if quick else None]
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    words.fit([part for name in names for part in found[name]])
    project = GaussianRandomProjection(64 if quick else 256, random_state=0).fit(words.transform([""]))
    for number, file in enumerate(["summaries", "texts"]):
        vectors = project.transform(words.transform([found[name][number] for name in names]))
        np.save(folder / f"{file}.npy", np.asarray(vectors, dtype=np.float32))
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _documented() -> dict[str, tuple[str, str]]:
    """Return the first sentence and the rest of the docstrings of public functions and classes, by name."""
    from importlib import import_module

    libraries = {
        "numpy": "linalg random fft polynomial",
        "scipy": "fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats",
        "sklearn": "cluster decomposition ensemble linear_model manifold metrics neighbors preprocessing svm",
    }
    places = ["numpy", *(f"{library}.{part}" for library, parts in libraries.items() for part in parts.split())]
    found = {}
    for place in places:
        module = import_module(place)
        for name in getattr(module, "__all__", dir(module)):
            text = getattr(getattr(module, name, None), "__doc__", None) or ""
            summary, _, rest = text.strip().partition("\n\n")
            if not name.startswith("_") and len(summary) > 20 and len(rest) > 200:
                found[f"{place}.{name}"] = (summary, rest)
    return found
