"""Pictures of the pages whose examples are run, drawn from what the examples left in their folder.

Each function is called in that folder with the names that the Python blocks of its page have made so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

INK, OURS, OTHER = "#222222", "#3949ab", "#c2571a"


def draw(name: str, names: dict[str, Any], target: Path) -> None:
    """Draw one picture into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    functions: dict[str, Callable[[dict[str, Any]], Any]] = {
        "nearest": nearest,
        "photos": photos,
        "pretrained": pretrained,
        "halves": halves,
        "graph": graph,
        "kernel": kernel,
        "time": time,
        "lengths": lengths,
        "vectors": vectors,
    }
    figure = functions[name](names)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=160, bbox_inches="tight", facecolor="white", metadata={"Software": None})
    pyplot.close(figure)


def _axes(rows: int, columns: int, width: float, height: float) -> tuple[Any, Any]:
    from matplotlib import pyplot

    return pyplot.subplots(rows, columns, figsize=(width, height), squeeze=False, layout="constrained")


def _lengths_across(ax: Any) -> None:
    """Let an axis show lengths of codes as numbers, in powers of two."""
    from matplotlib.ticker import ScalarFormatter

    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(ScalarFormatter())


def _grid(query: Path, found: dict[str, Sequence[np.ndarray]]) -> Any:
    """Show a query on the left, and one row of pictures for each length."""
    from PIL import Image

    count = max(map(len, found.values()))
    figure, axes = _axes(len(found), count + 1, 1.0 * (count + 1), 1.05 * len(found))
    for ax in axes.flat:
        ax.axis("off")
    for row, (label, pictures) in enumerate(found.items()):
        axes[row, 0].imshow(np.asarray(Image.open(query)), cmap="gray")
        axes[row, 0].set_title(label, fontsize=8, loc="left", color=INK)
        for column, picture in enumerate(pictures, start=1):
            axes[row, column].imshow(picture, cmap="gray")
    return figure


def nearest(names: dict[str, Any]) -> Any:
    """The query of the quickstart, and the nearest pictures of the catalogue at three lengths."""
    import eigenmap as em
    from eigenmap.data.images import catalogue

    gallery = catalogue.load("train")
    rows = {name: row for row, name in enumerate(gallery.ids)}
    index = em.CodeIndex.open("runs/ready/catalogue.index")
    query = Path("runs/ready/queries/bag-1.png")
    code = em.Eigenmap.load("runs/ready/model").encode(query)
    found = {}
    for dim in (2, 8, 128):
        ids = index.search(code, top=5, dim=dim).ids[0]
        found[f"{dim} features"] = [np.asarray(gallery.pixels[rows[str(name)], 0]) for name in ids]
    return _grid(query, found)


def photos(names: dict[str, Any]) -> Any:
    """The new photo, and the nearest photos of the folder at three lengths."""
    from PIL import Image

    import eigenmap as em

    model, index = em.Eigenmap.load("runs/mine"), em.CodeIndex.open("photos.index")
    code = model.encode("new.png")
    found = {}
    for dim in (2, min(16, model.n_components), model.n_components):
        ids = index.search(code, top=5, dim=dim).ids[0]
        found[f"{dim} features"] = [np.asarray(Image.open(Path("photos") / str(name))) for name in ids]
    return _grid(Path("new.png"), found)


def pretrained(names: dict[str, Any]) -> Any:
    """Retrieval by length of one encoder's features: ordered, and as the encoder has them."""
    import eigenmap as em
    from eigenmap.data import load_images
    from eigenmap.evaluation.baselines import labels_of, network_outputs
    from eigenmap.evaluation.retrieval import lengths as all_lengths
    from eigenmap.evaluation.retrieval import retrieval

    model = em.Eigenmap.load("runs/ordered")
    sets = [load_images(name, size=model.image.size, channels=model.image.channels) for name in ("queries", "photos")]
    truth = [labels_of(images).matrix for images in sets]
    raw = [network_outputs(model, images.pixels)[0] for images in sets]
    ordered = [model.encode(images.pixels) for images in sets]
    figure, axes = _axes(1, 1, 5.5, 3.2)
    for (queries, gallery), label, colour in ((ordered, "ordered", OURS), (raw, "own order", OTHER)):
        rows = retrieval(queries, gallery, *truth, all_lengths(gallery.shape[1]), (100,))
        values = [row["map_over_found@100"] for row in rows]
        axes[0, 0].plot([row["dim"] for row in rows], values, "o-", label=label, color=colour)
    _lengths_across(axes[0, 0])
    axes[0, 0].set(xlabel="features kept", ylabel="mAP over the top 100")
    axes[0, 0].legend(frameon=False)
    return figure


def halves(names: dict[str, Any]) -> Any:
    """Left halves of digits, and the right halves nearest to each."""
    import eigenmap as em

    model = em.Eigenmap.load("runs/halves")
    left, right = np.load("new_left.npy"), np.load("new_right.npy")
    codes = model.right.encode(right)  # type: ignore[union-attr]
    figure, axes = _axes(4, 6, 4.2, 3.6)
    for ax in axes.flat:
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    for row, query in enumerate((0, 3, 11, 16)):
        axes[row, 0].imshow(left[query].reshape(8, 4), cmap="gray_r")
        best = np.argsort(-(codes @ model.encode(left[query : query + 1])[0]))[:5]
        for column, found in enumerate(best, start=1):
            axes[row, column].imshow(right[found].reshape(8, 4), cmap="gray_r")
            if found == query:
                axes[row, column].set_xlabel("its own", fontsize=7)
    axes[0, 0].set_title("left half", fontsize=8)
    axes[0, 3].set_title("nearest right halves", fontsize=8)
    return figure


def graph(names: dict[str, Any]) -> Any:
    """Nodes by two features, known and new, coloured by library."""
    figure, axes = _axes(1, 1, 6, 4.2)
    places = [("names.txt", "codes.npy", ".", 14), ("new_names.txt", "new_codes.npy", "x", 22)]
    for libraries, colour in (("numpy", "#3949ab"), ("scipy", "#c2571a"), ("sklearn", "#2e7d32")):
        for file, codes, marker, size in places:
            known = [name.startswith(libraries) for name in Path(file).read_text().split()]
            rows = np.load(codes)[known]
            label = libraries if marker == "." else None
            first = 1 if rows.shape[1] > 2 else 0
            axes[0, 0].scatter(
                rows[:, first], rows[:, first + 1], s=size, c=colour, marker=marker, label=label, alpha=0.6, lw=0.7
            )
    axes[0, 0].set(xlabel="second feature", ylabel="third feature")
    axes[0, 0].legend(frameon=False)
    return figure


def kernel(names: dict[str, Any]) -> Any:
    """The six functions over the plane."""
    points, model = names["points"], names["model"]
    across, up = np.meshgrid(np.linspace(-1.8, 2.8, 90), np.linspace(-1.2, 1.7, 60))
    values = model.transform(np.column_stack([across.ravel(), up.ravel()]))
    figure, axes = _axes(2, 3, 8, 3.9)
    for number, ax in enumerate(axes.flat):
        level = abs(values[:, number]).max()
        ax.contourf(across, up, values[:, number].reshape(across.shape), 21, cmap="RdBu", vmin=-level, vmax=level)
        ax.plot(*points.T, "k.", ms=1.5)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{number + 1}: eigenvalue {model.eigenvalues_[number]:.3f}", fontsize=8)
    return figure


def time(names: dict[str, Any]) -> Any:
    """A sensor, the slowest mode and the hidden position over time."""
    slow, well, rows = names["slow"], names["well"], names["rows"]
    if np.corrcoef(slow, well)[0, 1] < 0:
        slow = -slow
    figure, axes = _axes(3, 1, 7, 3.6)
    shown = {"sensor 1": rows[:, 0], "slowest mode": slow, "hidden": well}
    for ax, (label, values) in zip(axes.flat, shown.items(), strict=True):
        ax.plot(values[:2000], lw=0.6, color=OURS if label == "slowest mode" else INK)
        ax.set_ylabel(label, fontsize=8)
        ax.tick_params(labelsize=7)
    axes[2, 0].set_xlabel("row", fontsize=8)
    return figure


def lengths(names: dict[str, Any]) -> Any:
    """Share of the ten nearest by all features that shorter searches find."""
    import eigenmap as em

    model, index = em.Eigenmap.load("runs/ready/model"), em.CodeIndex.open("runs/ready/catalogue.index")
    codes = model.encode("runs/ready/queries")
    full = [set(ids) for ids in index.search(codes, top=10).ids]
    dims = (2, 4, 8, 16, 32, 64, 128)

    def share(**how: int) -> float:
        found = index.search(codes, top=10, **how).ids  # type: ignore[arg-type]
        return float(np.mean([len(truth & set(ids)) / 10 for truth, ids in zip(full, found, strict=True)]))

    figure, axes = _axes(1, 1, 5.5, 3.2)
    plain = [share(dim=dim) for dim in dims]
    funnel = [share(shortlist_dim=dim, shortlist=200) for dim in dims[:-1]]
    axes[0, 0].plot(dims, plain, "o-", color=OTHER, label="cut code")
    axes[0, 0].plot(dims[:-1], funnel, "o-", color=OURS, label="funnel: best 200 by all features")
    _lengths_across(axes[0, 0])
    axes[0, 0].set(xlabel="features compared with every item", ylabel="share of the ten nearest", ylim=(0, 1.03))
    axes[0, 0].legend(frameon=False)
    return figure


def vectors(names: dict[str, Any]) -> Any:
    """What codes of each length find on held-out pairs."""
    import eigenmap as em

    scores = em.Eigenmap.load("runs/text").training["vectors"]["scores"]
    figure, axes = _axes(1, 1, 5.5, 3.2)
    for key, label, colour in (("ours", "ours", OURS), ("pca", "PCA", OTHER), ("prefix", "prefix", INK)):
        values = {int(dim): value for dim, value in scores[key].items()}
        axes[0, 0].plot(list(values), list(values.values()), "o-", ms=3, label=label, color=colour)
    _lengths_across(axes[0, 0])
    axes[0, 0].set(xlabel="features kept", ylabel="nDCG@10 on held-out pairs")
    axes[0, 0].legend(frameon=False)
    return figure
