"""`eigenmap reproduce`: the list of items, and the figure of the Gaussian kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.app import LEARN, Kinds, app
from eigenmap.cli.console import log_function, print_result
from eigenmap.cli.options import HOW, OUTPUT, WHAT, ForceOption, JsonOption, QuietOption, option
from eigenmap.cli.outputs import check_files, write_json_output

if TYPE_CHECKING:
    from eigenmap.figures.eigenfunctions import Eigenfunctions, Values

reproduce = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(reproduce, name="reproduce", rich_help_panel=LEARN)

HALF = 2.0
"""Points lie in [-HALF, HALF]."""
GRID = 2048
"""The functions are compared on this many evenly spaced positions."""
PAPER_ALPHA, PAPER_WIDTH, PAPER_STEPS = 5.0, 256, 600
"""The paper's objective is trained with this alpha, in units of the largest eigenvalue, this width and so long."""
NODES, FINEST = 500, 0.03
"""Quadrature nodes for the true functions, and the smallest length scale for which they are enough."""


@reproduce.callback(invoke_without_command=True)
def reproduce_group(
    listed: Annotated[
        bool, option("--list", "List the items with their data, their cost and the paper's number.", shown=True)
    ] = False,
) -> None:
    """Run tables and figures of the paper by name."""
    if not listed:
        return
    from rich.table import Table

    from eigenmap.reproduce import ITEMS

    table = Table()
    for column in ("item", "what", "paper scale", "small scale", "the paper's number"):
        table.add_column(column, overflow="fold")
    for item in ITEMS:
        table.add_row(item.name, item.what, item.paper, item.small, item.published)
    print_result(table)
    print_result("docs/paper.md has our numbers. --scale tiny runs an item in seconds on generated images.")
    raise typer.Exit


@reproduce.command(
    "figure-rbf",
    epilog="""
Example:

[cyan]  eigenmap reproduce figure-rbf --out figures/rbf[/cyan]
""",
)
def figure_rbf(
    out: Annotated[Path, option("--out -o STEM", "Where STEM.svg and STEM.png go.", OUTPUT, shown=True)] = Path(
        "figures/rbf"
    ),
    length_scale: Annotated[float, option("--length-scale L", "Of the kernel.", WHAT, shown=True)] = 1.0,
    components: Annotated[int, option("--components -k N", "How many functions.", WHAT, min=1, shown=True)] = 10,
    points: Annotated[int, option("--points N", "Random positions to learn from.", HOW, min=2, shown=True)] = 1024,
    paper_components: Annotated[
        int, option("--paper-components N", "How many of them the paper's objective learns.", WHAT, min=1, shown=True)
    ] = 3,
    paper_steps: Annotated[
        int, option("--paper-steps N", "Steps of training on the paper's objective.", HOW, min=1, shown=True)
    ] = PAPER_STEPS,
    seed: Annotated[int, option("--seed N", "Of everything random.", HOW, shown=True)] = 0,
    force: ForceOption = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Learn the eigenfunctions of the Gaussian kernel on [-2, 2] and draw them over the true ones.

    As in the paper: 1,024 random positions to learn from, 2,048 evenly spaced ones to compare on.
    Drawn are the functions of `NeuralEigenmap` with no settings but the kernel's, and those of a network of three
    layers and width 256 that is trained on the paper's objective, as its outputs are.
    """
    from eigenmap.figures.eigenfunctions import eigenfunction_figure
    from eigenmap.figures.style import save

    stem, files = figure_files(out)
    check_files(force, *files, json)
    say = log_function(quiet)
    say(f"Learning {components} functions from {points:,} points ...")
    found = learn_rbf(length_scale, components, points, seed)
    k = min(paper_components, len(found.eigenvalues))
    say(f"Training on the paper's objective for {k} functions, {paper_steps:,} steps ...")
    paper = learn_rbf_as_published(length_scale, k, points, seed, paper_steps, say)
    save(eigenfunction_figure(found, paper), stem)
    if json is not None:
        settings = {"length_scale": length_scale, "points": points, "seed": seed}
        published = {"alpha": PAPER_ALPHA, "width": PAPER_WIDTH, "steps": paper_steps}
        write_json_output(json, figure_summary(found) | settings | {"paper": figure_summary(paper) | published})
    for name, each in (("ours", found), ("the paper's objective", paper)):
        print_result(f"{name}:")
        print_result(f"  alignment |<psi_j, phi_j>|: {' '.join(f'{value:.3f}' for value in each.alignment)}")
        print_result(f"  relative error of eigenvalues: {' '.join(f'{value:.1%}' for value in each.eigenvalue_errors)}")
        print_result(f"  largest inner product of two learned functions: {each.off_diagonal:.3f}")
    print_result(f"Figure: {', '.join(map(str, files))}")


def figure_files(out: Path) -> tuple[Path, list[Path]]:
    """Return the stem of a figure's files, and the files: STEM.svg and STEM.png."""
    stem = out.with_suffix("") if out.suffix in (".svg", ".png") else out
    return stem, [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]


def figure_summary(found: Eigenfunctions) -> dict[str, object]:
    """Everything the figure shows in numbers."""
    return {
        "alignment": found.alignment.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "true_eigenvalues": found.true_eigenvalues.tolist(),
        "relative_eigenvalue_error": found.eigenvalue_errors.tolist(),
        "inner_products": found.inner_products.tolist(),
        "largest_off_diagonal": found.off_diagonal,
    }


def learn_rbf(length_scale: float, n_components: int, points: int, seed: int) -> Eigenfunctions:
    """Learned and true eigenfunctions of the Gaussian kernel under the uniform measure on [-2, 2]."""
    from eigenmap.estimators import NeuralEigenmap
    from eigenmap.figures.eigenfunctions import Eigenfunctions

    grid, x = _positions(points, seed)
    mu, phi = true_rbf(grid, length_scale, n_components)
    model = NeuralEigenmap(n_components, kernel="rbf", kernel_params={"length_scale": length_scale}, random_state=seed)
    learned = model.fit(x).transform(grid)
    k = learned.shape[1]  # the rank found, where that is below what was asked for
    return Eigenfunctions(grid[:, 0], learned, phi[:, :k], model.eigenvalues_, mu[:k])


def learn_rbf_as_published(
    length_scale: float, n_components: int, points: int, seed: int, steps: int, say: Callable[[str], None]
) -> Eigenfunctions:
    """The same by the paper's objective: outputs of a trained network, no alignment, eigenvalues mu_j = R_jj."""
    import warnings

    import torch

    from eigenmap.estimators import NeuralEigenmap
    from eigenmap.figures.eigenfunctions import Eigenfunctions
    from eigenmap.networks import MLP
    from eigenmap.relations.kernel import rbf

    grid, x = _positions(points, seed)
    mu, phi = true_rbf(grid, length_scale, n_components)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = MLP(1, n_components, width=PAPER_WIDTH, depth=2, activation="tanh")
    model = NeuralEigenmap(
        n_components,
        kernel="rbf",
        kernel_params={"length_scale": length_scale},
        objective="neuralef",
        objective_params={"alpha": PAPER_ALPHA},
        network=network,
        max_steps=steps,
        random_state=seed,
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.fit(x)
    for warning in warned:  # an alpha that is too small for so many functions
        say(f"{warning.message}")
    psi = model.psi(grid)
    psi = psi / (psi**2).mean(0) ** 0.5
    K = rbf(torch.from_numpy(grid), torch.from_numpy(grid), length_scale).numpy()
    R = ((K @ psi) * psi).sum(0) / len(psi) ** 2
    return Eigenfunctions(grid[:, 0], psi, phi, R, mu)


def _positions(points: int, seed: int) -> tuple[Values, Values]:
    """Evenly spaced positions to compare on, and random ones to learn from."""
    import numpy as np

    grid = HALF * (2 * np.arange(GRID, dtype=float)[:, None] + 1 - GRID) / GRID
    return grid, np.random.default_rng(seed).uniform(-HALF, HALF, (points, 1))


def true_rbf(x: Values, length_scale: float, k: int) -> tuple[Values, Values]:
    """The k leading eigenvalues, and the eigenfunctions at `x`, in float64.

    The kernel at Gauss-Legendre nodes z of weights w gives mu and phi(z); phi(x) is sum_z w_z kappa(x, z) phi(z) / mu.
    """
    import numpy as np
    import torch

    from eigenmap.core.errors import EigenmapError
    from eigenmap.relations.kernel import rbf

    if not length_scale >= FINEST:
        raise EigenmapError(f"The length scale must be at least {FINEST:g}, not {length_scale:g}.")
    nodes, weights = (torch.from_numpy(values) for values in np.polynomial.legendre.leggauss(NODES))
    z, w = HALF * nodes[:, None], weights / 2
    mu, vectors = torch.linalg.eigh(w.sqrt()[:, None] * rbf(z, z, length_scale) * w.sqrt())
    mu, vectors = mu.flip(0), vectors.flip(1)
    rank = int((mu > 1e-12 * mu[0]).sum())
    if k > rank:
        raise EigenmapError(
            f"At length scale {length_scale:g} only {rank} eigenvalues are above rounding; ask for fewer components."
        )
    phi = rbf(torch.from_numpy(x), z, length_scale) @ (w.sqrt()[:, None] * vectors[:, :k]) / mu[:k]
    return mu[:k].numpy(), phi.numpy()
