"""`eigenmap reproduce`: the list of items, and the figure of the Gaussian kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.app import LEARN, Kinds, app
from eigenmap.cli.console import log_function, print_result
from eigenmap.cli.figures.reproduce_options import ScaleName
from eigenmap.cli.options import HOW, OUTPUT, WHAT, ForceOption, JsonOption, QuietOption, option
from eigenmap.cli.outputs import check_files, figure_files, write_json_output

if TYPE_CHECKING:
    from eigenmap.figures.eigenfunctions import Eigenfunctions, Values

reproduce = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(reproduce, name="reproduce", rich_help_panel=LEARN)

HALF = 2.0
"""Positions lie in [-HALF, HALF]."""
GRID = 2048
"""Number of evenly spaced positions at which functions are compared."""
PAPER_ALPHA, PAPER_WIDTH, PAPER_STEPS = 5.0, 256, 600
"""Settings for the paper's objective: alpha, in units of the largest eigenvalue, network width, training steps."""
TINY = (128, 200)
"""Largest numbers of positions and steps at tiny scale."""
NODES, FINEST = 500, 0.03
"""Quadrature nodes for the true functions, and the smallest length scale that they resolve."""


@reproduce.callback(invoke_without_command=True)
def reproduce_group(
    listed: Annotated[
        bool, option("--list", "List the items with their data and cost, the paper's number and ours.", shown=True)
    ] = False,
) -> None:
    """Run tables and figures of the paper by name."""
    if not listed:
        return
    from rich.table import Table

    from eigenmap.reproduce import ITEMS, our_numbers

    table, ours = Table(), our_numbers()
    for column in ("item", "what", "paper scale", "small scale", "the paper's number", "ours"):
        table.add_column(column, overflow="fold")
    for item in ITEMS:
        table.add_row(item.name, item.what, item.paper, item.small, item.published, ours[item.name])
    print_result(table)
    print_result("docs/paper.md has all numbers. --scale tiny runs an item in seconds on generated images.")
    raise typer.Exit


@reproduce.command(
    "figure-rbf",
    epilog="""
Example:

[cyan]  eigenmap reproduce figure-rbf --out figures/rbf[/cyan]
""",
)
def figure_rbf(
    scale: Annotated[
        ScaleName,
        option(
            "--scale",
            "paper and small: as published; tiny: at most 128 positions and 200 steps.",
            WHAT,
            shown=True,
        ),
    ] = ScaleName.small,
    out: Annotated[Path, option("--out -o STEM", "Output: STEM.svg and STEM.png.", OUTPUT, shown=True)] = Path(
        "figures/rbf"
    ),
    length_scale: Annotated[float, option("--length-scale L", "Length scale of the kernel.", WHAT, shown=True)] = 1.0,
    components: Annotated[int, option("--components -k N", "Number of functions.", WHAT, min=1, shown=True)] = 10,
    points: Annotated[int, option("--points N", "Random positions to learn from.", HOW, min=2, shown=True)] = 1024,
    paper_components: Annotated[
        int, option("--paper-components N", "Number of functions for the paper's objective.", WHAT, min=1, shown=True)
    ] = 3,
    paper_steps: Annotated[
        int, option("--paper-steps N", "Training steps for the paper's objective.", HOW, min=1, shown=True)
    ] = PAPER_STEPS,
    seed: Annotated[int, option("--seed N", "Random seed.", HOW, shown=True)] = 0,
    force: ForceOption = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Learn the eigenfunctions of the Gaussian kernel on [-2, 2] and draw them over the true ones.

    As in the paper, 1,024 random positions are used for learning and 2,048 evenly spaced ones for comparison. The
    figure shows the functions of `NeuralEigenmap` with default settings, and the raw outputs of a network with three
    layers of width 256 trained on the paper's objective.
    """
    from eigenmap.figures.eigenfunctions import eigenfunction_figure
    from eigenmap.figures.style import save

    stem, files = figure_files(out)
    check_files(force, *files, json)
    say = log_function(quiet)
    if scale is ScaleName.tiny:
        points, paper_steps = min(points, TINY[0]), min(paper_steps, TINY[1])
    say(f"Learning {components} functions from {points:,} points ...")
    found = learn_rbf(length_scale, components, points, seed)
    k = min(paper_components, len(found.eigenvalues))
    say(f"Training on the paper's objective for {k} functions, {paper_steps:,} steps ...")
    paper = learn_rbf_as_published(length_scale, k, points, seed, paper_steps, say)
    save(eigenfunction_figure(found, paper), stem)
    if json is not None:
        settings = {"scale": scale.value, "length_scale": length_scale, "points": points, "seed": seed}
        published = {"alpha": PAPER_ALPHA, "width": PAPER_WIDTH, "steps": paper_steps}
        write_json_output(json, figure_summary(found) | settings | {"paper": figure_summary(paper) | published})
    for name, each in (("ours", found), ("the paper's objective", paper)):
        print_result(f"{name}:")
        print_result(f"  alignment |<psi_j, phi_j>|: {' '.join(f'{value:.3f}' for value in each.alignment)}")
        print_result(f"  relative error of eigenvalues: {' '.join(f'{value:.1%}' for value in each.eigenvalue_errors)}")
        print_result(f"  largest inner product of two learned functions: {each.off_diagonal:.3f}")
    print_result(f"Figure: {', '.join(map(str, files))}")


def figure_summary(found: Eigenfunctions) -> dict[str, object]:
    """Return the figure's content as numbers."""
    return {
        "alignment": found.alignment.tolist(),
        "eigenvalues": found.eigenvalues.tolist(),
        "true_eigenvalues": found.true_eigenvalues.tolist(),
        "relative_eigenvalue_error": found.eigenvalue_errors.tolist(),
        "inner_products": found.inner_products.tolist(),
        "largest_off_diagonal": found.off_diagonal,
    }


def learn_rbf(length_scale: float, n_components: int, points: int, seed: int) -> Eigenfunctions:
    """Return learned and true eigenfunctions of the Gaussian kernel under the uniform measure on [-2, 2]."""
    from eigenmap.estimators import NeuralEigenmap
    from eigenmap.figures.eigenfunctions import Eigenfunctions

    grid, x = _positions(points, seed)
    mu, phi = true_rbf(grid, length_scale, n_components)
    model = NeuralEigenmap(n_components, kernel="rbf", kernel_params={"length_scale": length_scale}, random_state=seed)
    learned = model.fit(x).transform(grid)
    k = learned.shape[1]  # fewer than requested if the kernel's rank is lower
    return Eigenfunctions(grid[:, 0], learned, phi[:, :k], model.eigenvalues_, mu[:k])


def learn_rbf_as_published(
    length_scale: float, n_components: int, points: int, seed: int, steps: int, say: Callable[[str], None]
) -> Eigenfunctions:
    """Return eigenfunctions learned by the paper's objective, and the true ones.

    The learned functions are outputs of a trained network without alignment, their eigenvalues mu_j = R_jj.
    """
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
    for warning in warned:  # alpha is too small for this many functions
        say(f"{warning.message}")
    psi = model.psi(grid)
    psi = psi / (psi**2).mean(0) ** 0.5
    K = rbf(torch.from_numpy(grid), torch.from_numpy(grid), length_scale).numpy()
    R = ((K @ psi) * psi).sum(0) / len(psi) ** 2
    return Eigenfunctions(grid[:, 0], psi, phi, R, mu)


def _positions(points: int, seed: int) -> tuple[Values, Values]:
    """Return evenly spaced positions for comparison, and random ones for learning."""
    import numpy as np

    grid = HALF * (2 * np.arange(GRID, dtype=float)[:, None] + 1 - GRID) / GRID
    return grid, np.random.default_rng(seed).uniform(-HALF, HALF, (points, 1))


def true_rbf(x: Values, length_scale: float, k: int) -> tuple[Values, Values]:
    """Return the k leading eigenvalues, and the eigenfunctions at `x`, in float64.

    The kernel at Gauss-Legendre nodes z with weights w yields mu and phi(z), and
    phi(x) = sum_z w_z kappa(x, z) phi(z) / mu.
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
            f"At length scale {length_scale:g} only {rank} eigenvalues are above rounding error; use at most that many "
            "components."
        )
    phi = rbf(torch.from_numpy(x), z, length_scale) @ (w.sqrt()[:, None] * vectors[:, :k]) / mu[:k]
    return mu[:k].numpy(), phi.numpy()
