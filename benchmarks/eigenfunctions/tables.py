"""Generator of docs/eigenfunctions.md, from the results alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from benchmarks.common.pages import NONE, NOT_RUN, figure, made_by, table
from benchmarks.eigenfunctions import choices as eigen_choices
from benchmarks.eigenfunctions import layouts, perturbation
from benchmarks.eigenfunctions.methods import METHODS
from benchmarks.eigenfunctions.problems import PROBLEMS
from benchmarks.eigenfunctions.scores import GOOD
from benchmarks.eigenfunctions.verdicts import Results, Run, averaged, in_short, losses, read, verdict

# One problem


def about(results: Results) -> Iterator[str]:
    problem, settings = results.problem, results.settings
    groups = [group for group in problem["groups"] if len(group) > 1]
    together = ", ".join("–".join(str(j) for j in (group[0], group[-1])) for group in groups)
    yield f"## {problem['title'][0].upper()}{problem['title'][1:]}"
    mu = problem["eigenvalues"]
    yield (
        f"{settings['n']} points, k = {len(mu)}, eigenvalues from {mu[0]:.3g} to {mu[-1]:.3g}. "
        + (f"Modes compared as eigenspaces: {together}." if groups else "All eigenvalues are simple.")
    )


def summary(results: Results) -> str:
    """One row per method: how many modes were found, and at what cost."""
    head = ["method", f"modes ≥ {GOOD}", "before", "worst mode", "before"]
    head += ["eigenvalue error, median", "largest", "off-diagonal", "before", "seconds", "MB", "rate", "seeds"]
    rows = []
    for name, method in METHODS.items():
        runs = results.of(name)
        if runs:
            rows.append([method.title, *_cells(runs)])
        elif not method.applies(PROBLEMS[results.problem["name"]]):
            rows.append([method.title, "does not apply", *[NONE] * (len(head) - 2)])
        else:
            word = "failed" if results.failed(name) else NOT_RUN
            rows.append([method.title, word, *[NONE] * (len(head) - 2)])
    return table(head, rows)


def _cells(runs: Sequence[Run]) -> list[str]:
    own_order = all(run["before"] is not None for run in runs)

    def found(when: str) -> str:
        counts = [sum(value >= GOOD for value in run[when]["alignment"]) for run in runs]
        return f"{mean(counts):.3g} of {len(runs[0][when]['alignment'])}"

    def worst(when: str) -> str:
        return figure([min(run[when]["alignment"]) for run in runs])

    def off(when: str) -> str:
        return f"{mean(run[when]['off_diagonal'] for run in runs):.3f}"

    errors = [run["after"]["eigenvalue_error"] for run in runs]
    rate = runs[0]["rate"]
    return [
        found("after"),
        found("before") if own_order else NONE,
        worst("after"),
        worst("before") if own_order else NONE,
        _percent(mean(median(error) for error in errors)),
        _percent(mean(max(error) for error in errors)),
        off("after"),
        off("before") if own_order else NONE,
        f"{mean(run['seconds'] for run in runs):.2g}",
        f"{mean(run['peak_mb'] for run in runs):.0f}",
        NONE if rate is None else f"{rate:g}",
        str(len(runs)),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 1 else f"{share:.1g} x"


def modes(results: Results, when: str) -> str:
    """Alignment of every mode."""
    k = len(results.problem["eigenvalues"])
    rows = []
    for name, method in METHODS.items():
        runs = [run for run in results.of(name) if run[when] is not None]
        if runs:
            values = [f"{value:.3f}".removeprefix("0") for value in averaged(runs, when, "alignment")]
            rows.append([method.title, *values, *[NONE] * (k - len(values))])
    return table(["method", *(str(j + 1) for j in range(k))], rows)


def errors(results: Results) -> str:
    """Relative eigenvalue error of every mode, after alignment."""
    k = len(results.problem["eigenvalues"])
    rows = []
    for name, method in METHODS.items():
        runs = results.of(name)
        if runs:
            values = [_percent(value) for value in averaged(runs, "after", "eigenvalue_error")]
            rows.append([method.title, *values, *[NONE] * (k - len(values))])
    return table(["method", *(str(j + 1) for j in range(k))], rows)


def one(name: str, found: dict[str, Results]) -> Iterator[str]:
    if name not in found:
        yield f"## {PROBLEMS[name].title}"
        yield f"{NOT_RUN.capitalize()}."
        return
    results = found[name]
    yield from about(results)
    yield summary(results)
    yield verdict(results)
    yield losses(results)
    yield "Alignment of every mode, after alignment:"
    yield modes(results, "after")
    yield "Before alignment, in the method's own order (methods that align by themselves are left out):"
    yield modes(results, "before")
    yield "Relative eigenvalue error of every mode, after alignment:"
    yield errors(results)
    yield _made_by(results.runs)


def _made_by(runs: Sequence[Run]) -> str:
    return made_by([run | {"job": {"seed": run.get("seed", 0)}} for run in runs])


# The studies


def perturbed(folder: Path) -> Iterator[str]:
    yield "## Perturbing the kernel"
    yield (
        "Does lifting or removing small eigenvalues help to find their functions, as the paper suspects? This is "
        f"tested with the exponential kernel on [-2, 2] at {perturbation.POINTS} grid points, whose eigenvalues fall "
        "like 1/j². Expectations are exact and the network is wide enough, so only the objective can fail. The table "
        f"counts modes with alignment ≥ {GOOD} in their own place, before and after alignment; one rate, one seed. "
        "*Shift*: (1 - c) mu + c. *Lifted*: mu / (mu + tau). *Truncated*: eigenvalues below the k-th set to zero."
    )
    runs = perturbation.Results(folder).runs
    rows = []
    for name, variant in perturbation.VARIANTS.items():
        cells = []
        for k in perturbation.SIZES:
            run = next((each for each in runs if (each["variant"], each["k"]) == (name, k)), None)
            cells += [NOT_RUN, NOT_RUN] if run is None else [str(run[when]["found"]) for when in ("before", "after")]
        rows.append([variant.title, *cells])
    head = [f"{words}k = {k}" for k in perturbation.SIZES for words in ("before, ", "after, ")]
    yield table(["kernel and objective", *head], rows)
    yield _made_by(runs)


def _runs(path: Path) -> list[Run]:
    """The runs in a result file; none if it is not there."""
    return json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []


def trunks(folder: Path) -> Iterator[str]:
    yield "## One trunk or k separate networks"
    yield (
        "NeuralEF trains k networks, and its successor one trunk with k outputs. Points and steps are as above, with "
        "one rate and one seed. Separate networks are as wide as the trunk, or so narrow that together they have about "
        "as many weights."
    )
    runs = _runs(folder / layouts.FILE)
    rows = [
        [
            f"{run['problem']}, {run['title']}: {run['layout']} ({run['width']})",
            *(
                f"{sum(value >= GOOD for value in run[when]['alignment'])} of {len(run[when]['alignment'])}"
                for when in ("before", "after")
            ),
            *(f"{min(run[when]['alignment']):.3f}" for when in ("before", "after")),
            f"{run['seconds']:.2g}",
            f"{run['peak_mb']:.0f}",
        ]
        for run in sorted(runs, key=lambda run: (list(PROBLEMS).index(run["problem"]), run["title"], run["width"]))
    ] or [[NOT_RUN, *[NONE] * 6]]
    head = [f"modes ≥ {GOOD}, before", "after", "worst mode, before", "after", "seconds", "MB"]
    yield table(["problem, objective: layout (width)", *head], rows)
    yield _made_by(runs)


def choices(folder: Path) -> Iterator[str]:
    yield "## Choices inside the default"
    yield (
        "Three choices are compared with their alternatives on 512 points (16,000 in 16 dimensions), in the span of "
        "the same network or at the same steps. *Probes*: Rayleigh-Ritz alone, or also least squares at probes around "
        "the points. *Cut*: all of the hidden layer, or the part that held-out nodes support. *Offset*: tau of the "
        "log-det."
    )
    runs = _runs(folder / eigen_choices.FILE)
    rows = []
    for name, title in eigen_choices.TITLES.items():
        found = [run["figures"] for run in runs if run["choice"] == name]
        rows += [
            [title, setting, figure([figures[setting] for figures in found], 4), str(len(found))]
            for setting in (found[0] if found else ())
        ] or [[title, NOT_RUN, NONE, NONE]]
    yield table(["choice: figure", "setting", "mean over seeds", "seeds"], rows)
    yield _made_by(runs)


# Costs


def costs(folder: Path) -> Iterator[str]:
    yield "## What it costs"
    yield (
        "Measured by `kernel_cost.py`: points near a curved surface of 4 dimensions in 16, Gaussian kernel of length "
        "scale 2. *Captured*: share of the kernel's spectrum on 4,096 fresh points, from pairs of different points. "
        "Seconds are processor time of all threads together. A fit may use 2 GB."
    )
    path = folder / "kernel-cost-cpu.json"
    if path.exists():
        content = json.loads(path.read_text(encoding="utf-8"))
        head = ["method, k = 32", "points", "seconds", "MB", "captured", "transform, points/s"]
        landmarks = [row for row in content["transform"]["nystroem"] if "failed" not in row]
        yield table(head, [_cost(row) for row in [*content["fits"], *landmarks]])
        yield _per_step(content["fits"])
        yield _made_by([content["environment"]])
    yield from _stream(folder / "kernel-cost-cuda.json")


def _cost(row: Run) -> list[str]:
    name = {"eigenmap": "**default estimator**", "kernel-pca": "KernelPCA", "nystroem": "Nystroem"}[row["method"]]
    landmarks = row.get("landmarks", row["n"])
    name += f", {landmarks:,} landmarks" if landmarks < row["n"] else ""
    if "failed" in row:
        return [name, f"{row['n']:,}", row["failed"].split(":")[-1].strip().split(" for an")[0], *[NONE] * 3]
    rate = row["transform_points_per_processor_second"]
    return [
        name,
        f"{row['n']:,}",
        f"{row['processor_seconds']:.3g}",
        f"{row['peak_mb']:.0f}",
        f"{row['captured']:.4f}",
        f"{rate:,.0f}",
    ]


def _per_step(fits: Sequence[Run]) -> str:
    """Describe how time grows with the points visited; every step visits the same number."""
    ours = [row for row in fits if row["method"] == "eigenmap" and "failed" not in row]
    each = "\n".join(
        f"- {row['n']:,} points: {row['steps']:,} steps of {1000 * row['processor_seconds'] / row['steps']:.0f} ms"
        for row in ours
    )
    return f"A step of the default visits 2,048 points, however many there are. With the last layer:\n\n{each}"


def _stream(path: Path) -> Iterator[str]:
    """Points streamed on a GPU, and `transform` there."""
    if not path.exists():
        yield f"On a GPU (`--device cuda`): {NOT_RUN}."
        return
    content = json.loads(path.read_text(encoding="utf-8"))
    yield (
        f"On a GPU: points are made there from a seed and seen once, k = {content['stream']['k']}, two hidden layers "
        f"of {content['stream']['width']}. *Share*: rate of operations in all matrix products, relative to the product "
        "of two large matrices on the same GPU, in that precision and in the same run, and relative to the data sheet."
    )
    head = ["precision", "points", "points/s", "TFLOP/s", "share of the measured peak", "of the data sheet", "captured"]
    rows = [
        [
            row["precision"],
            f"{row['points']:,}",
            f"{row['points_per_s']:,.0f}",
            f"{row['operations_per_s'] / 1e12:.1f}",
            f"{row['share_of_matrix_product_peak']:.1%} of {row['product_peak'] / 1e12:.0f}",
            NONE if row["share_of_data_sheet"] is None else f"{row['share_of_data_sheet']:.1%}",
            f"{row['captured']:.4f}",
        ]
        for row in content["streams"]
    ]
    yield table(head, rows)
    rows = [[row["method"], f"{row['points_per_s']:,.0f}", f"{row['captured']:.4f}"] for row in content["transform"]]
    yield table(["`transform` on the same GPU", "points/s", "captured"], rows)
    yield _made_by([content["environment"]])


TITLE = """\
# Eigenfunctions of kernels

<!-- Generated by `python -m benchmarks eigenfunctions page` from `benchmarks/eigenfunctions/results/`. -->"""

PROTOCOL = """\
## What was measured

**Figures.** The kernels have known eigenfunctions phi_j and eigenvalues mu_j, in closed form or by quadrature
in float64. *Alignment* of mode j is `|<psi_j, phi_j>|` in L2(p), both of norm 1. If eigenvalues are closer than 5 %, it
is the cosines of the angles between the two eigenspaces. *Eigenvalue error* is |mu - mu_j| / mu_j. *Off-diagonal* is
the largest `|<psi_i, psi_j>|`, i ≠ j. All inner products are taken at quadrature nodes that no method saw. Columns
*before* show a method's own features in its own order. The others are after the library's alignment on the training
points, with in-sample eigenvalues, like Nystroem's.

**Protocol.** Every method gets the same points and the same kernel between them. Networks have two hidden layers of 64
units and take 600 full-batch steps of Adam along a cosine, in float64. They have the best of three rates (0.003, 0.01,
0.03), chosen on the first seed by the mean logarithm of the eigenvalues of the span on 512 held-out points. The
*default estimator* is `NeuralEigenmap(k, kernel=..., kernel_params=...)` with no other setting: its own network, steps
and alignment. Seconds are processor seconds of one thread, for one training at the chosen rate. MB is peak memory
above that of the idle process. Figures are means over seeds, ± their standard deviation.

**Notes.** *KernelPCA* centres the kernel, which changes its eigenfunctions, so it is compared with those of the centred
kernel (there may be fewer). *GrEASE* embeds its own neighbour graph, which is another operator. Its row before
alignment shows how different that is, and its row after shows how useful its span is. It has its own network code,
schedule and stopping rule, at the common width. For new nodes of the block model, *Nystroem* and *KernelPCA* get the
edges to the training nodes; networks see only features. mu-EigenGame and SpIN are small implementations of our own, for
full batches (`benchmarks/eigenfunctions/rivals/`).

![Ten functions learned from 1,024 points lie on the true ones, and their inner products are close to zero or
one](images/figure-rbf.png)

`eigenmap reproduce figure-rbf` draws this picture: the RBF figure of the paper. Length scale 1 on [-2, 2], 1,024 random
points, compared at 2,048 evenly spaced ones. Blue are the functions of the default estimator; orange are the three that
a network of width 256 learns with the paper's objective (alpha 5, 600 steps), without alignment."""


def page(folder: Path) -> str:
    """The whole page."""
    found = read(folder)
    parts = [TITLE, *in_short(found), PROTOCOL]
    for name in PROBLEMS:
        parts += one(name, found)
    parts += [*perturbed(folder), *trunks(folder), *choices(folder), *costs(folder)]
    return "\n\n".join(part for part in parts if part) + "\n"
