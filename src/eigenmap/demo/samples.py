"""Sample data for the how-tos: small, the same each time, and real where possible.

    write("photos", Path("."))        # the files that docs/howto/photos.md works on

Nothing is downloaded: pictures come from the embedded catalogue, digits from scikit-learn, and texts from the
documentation of the installed numpy, scipy and scikit-learn.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from eigenmap.core.addresses import require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import make_folder
from eigenmap.data.images import catalogue
from eigenmap.evaluation.baselines import labels_of

WORD = r"(?u)\b[^\W\d]\w+\b"
"""Words that count: no numbers, since scipy draws some of those in its documentation at random."""


def write(name: str, folder: Path, small: bool = False, force: bool = False) -> list[Path]:
    """Write the sample data of one name into a folder; return the files and folders that are new in it.

    Args:
        name: One of `SAMPLES`.
        folder: The folder; it is made if it is missing.
        small: Write less, for a quick try.
        force: Replace files and folders of the same names.
    """
    if name not in SAMPLES:
        raise EigenmapError(f"there are no sample data {name!r}; choose from {', '.join(SAMPLES)}.")
    require_path(folder)
    if folder.exists() and not folder.is_dir():
        raise EigenmapError(f"{folder} is a file; choose a folder for the output.")
    make_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".sample-") as place:
        SAMPLES[name](Path(place), small)
        made = sorted(Path(place).iterdir())
        taken = [folder / path.name for path in made if (folder / path.name).exists()]
        if taken and not force:
            raise EigenmapError(f"{taken[0]} exists: choose another folder, or use force=True.")
        for path in taken:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        return [path.rename(folder / path.name) for path in made]


def photos(folder: Path, small: bool = False) -> None:
    """Write `photos/CLASS/NUMBER.png`, garments of the embedded catalogue, and `new.png`, another garment."""
    images = catalogue.load("train")
    labels = labels_of(images)
    for row in range(120 if small else 4_000):
        name = labels.names[int(labels.matrix[row].int().argmax())]
        place = folder / "photos" / name
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(images.pixels[row]).squeeze()).save(place / f"{row:05}.png")
    Image.fromarray(np.asarray(catalogue.load("query").pixels[0]).squeeze()).save(folder / "new.png")


def new_photos(folder: Path, small: bool = False) -> None:
    """Write `photos/CLASS/NUMBER.png` and `queries/CLASS/NUMBER.png`: garments in random poses, in no training set."""
    for split, place, number in (("validation", "photos", 1_000), ("query", "queries", 200)):
        images = catalogue.load(split, posed=True)  # type: ignore[arg-type]
        for row in range(100 if small else number):
            target = folder / place / catalogue.CLASSES[row % len(catalogue.CLASSES)]
            target.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.asarray(images.pixels[row, 0])).save(target / f"{row:04}.png")


def halves(folder: Path, small: bool = False) -> None:
    """Write left and right halves of scikit-learn's handwritten digits, 1,500 to learn from and 297 to search."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    for name, rows in (("", slice(1_500)), ("new_", slice(1_500, None))):
        np.save(folder / f"{name}left.npy", digits.images[rows, :, :4].reshape(-1, 32).astype("f4"))
        np.save(folder / f"{name}right.npy", digits.images[rows, :, 4:].reshape(-1, 32).astype("f4"))
        np.save(folder / f"{name}digit.npy", digits.target[rows])
    np.save(folder / "query.npy", np.load(folder / "new_left.npy")[:1])


def see_also(folder: Path, small: bool = False) -> None:
    """Write a graph of the functions of three libraries: features are words of their documentation, edges "See Also".

    `graph.npz` and `names.txt` hold the functions known at first, `new.npy` and `new_names.txt` those that arrive,
    `arriving.npz` the same with their edges, numbered after the others.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    found = dict(sorted(_documented().items()))
    names = list(found)[:: 4 if small else 1]
    new = set(names[9::10])  # every tenth arrives later
    names.sort(key=new.__contains__)  # stable: new ones come last
    most = 64 if small else 1_000
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=WORD, min_df=5, max_features=most)
    x = words.fit_transform([" ".join(found[name]) for name in names]).toarray().astype("f4")
    edges = np.array(sorted(_mentions(names, found)), dtype=np.int64).T.reshape(2, -1)
    known = len(names) - len(new)
    old = (edges < known).all(0)
    np.savez(folder / "graph.npz", x=x[:known], edge_index=edges[:, old])
    np.savez(folder / "arriving.npz", x=x[known:], edge_index=edges[:, ~old])
    np.save(folder / "new.npy", x[known:])
    for file, some in (("names.txt", names[:known]), ("new_names.txt", names[known:])):
        (folder / file).write_text("".join(f"{name}\n" for name in some), encoding="utf-8")


def _mentions(names: list[str], found: dict[str, tuple[str, str]]) -> set[tuple[int, int]]:
    """Return the pairs of functions of which one names the other in its section "See Also"."""
    rows = {name: row for row, name in enumerate(names)}
    pairs = set()
    for name, row in rows.items():
        home = name.rpartition(".")[0]
        section = re.search(r"See Also\s*-+\n(.*?)(\n\s*\n\s*\w+\s*\n\s*-+|\Z)", found[name][1], re.DOTALL)
        for word in re.findall(r"[A-Za-z_][\w.]+", section[1] if section else ""):
            other = rows.get(word, rows.get(f"{home}.{word}", rows.get(f"numpy.{word}", row)))
            if other != row:
                pairs |= {(row, other), (other, row)}
    return pairs


def double_well(folder: Path, small: bool = False) -> None:
    """Write `run1.npy` and `run2.npy`: a particle that hops between two wells, through eight noisy sensors.

    `well1.npy` and `well2.npy` hold its position, which nobody tells the model.
    """
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(8, 8))
    for run in (1, 2):
        x = np.empty(5_000)
        x[0] = -1.0
        for t in range(1, len(x)):  # dx = (x - x^3) dt + noise
            x[t] = x[t - 1] + 0.05 * (x[t - 1] - x[t - 1] ** 3) * 4 + np.sqrt(0.05) * 0.75 * rng.normal()
        sensors = np.column_stack([x, 2 * rng.normal(size=(len(x), 7))]) @ mix
        np.save(folder / f"run{run}.npy", sensors.astype("f4"))
        np.save(folder / f"well{run}.npy", x)


def docstrings(folder: Path, small: bool = False) -> None:
    """Write `summaries.npy`, `texts.npy` and `names.txt`: documentation of numpy, scipy and scikit-learn as vectors.

    Row i belongs to one function: the first sentence of its docstring, and the rest. Vectors are hashed words with
    TF-IDF weights, randomly projected to 256 numbers, in place of a language model, which could not be downloaded.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.random_projection import GaussianRandomProjection

    found = dict(sorted(_documented().items()))
    names = list(found)[: 400 if small else None]
    words = TfidfVectorizer(sublinear_tf=True, stop_words="english", token_pattern=WORD)
    words.fit([part for name in names for part in found[name]])
    project = GaussianRandomProjection(64 if small else 256, random_state=0).fit(words.transform([""]))
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


SAMPLES: dict[str, Callable[[Path, bool], None]] = {
    "photos": photos,
    "pretrained": new_photos,
    "embeddings": docstrings,
    "pairs": halves,
    "graph": see_also,
    "time": double_well,
}
"""Functions that write the data of each how-to, by the name of its page."""
