"""`eigenmap reproduce figure-rbf`: the figures of the papers, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eigenmap.cli.app import LEARN, Kinds, app
from eigenmap.cli.console import log_function, print_result
from eigenmap.cli.options import HOW, OUTPUT, WHAT, ForceOption, JsonOption, QuietOption
from eigenmap.cli.outputs import check_file, write_json_output

if TYPE_CHECKING:
    from eigenmap.figures.eigenfunctions import Eigenfunctions, Values

reproduce = typer.Typer(cls=Kinds, no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(reproduce, name="reproduce", rich_help_panel=LEARN)

HALF = 2.0
"""Points lie in [-HALF, HALF]."""
GRID = 2048
"""The functions are compared on this many evenly spaced positions."""
NODES, FINEST = 500, 0.03
"""Quadrature nodes for the true functions, and the smallest length scale for which they are enough."""


@reproduce.callback()
def reproduce_group() -> None:
    """Make the figures of the papers anew."""


@reproduce.command(
    "figure-rbf",
    epilog="""
Example:

[cyan]  eigenmap reproduce figure-rbf --out figures/rbf[/cyan]
""",
)
def figure_rbf(
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="STEM", help="Where STEM.svg and STEM.png go.", rich_help_panel=OUTPUT),
    ] = Path("figures/rbf"),
    length_scale: Annotated[
        float, typer.Option("--length-scale", metavar="L", help="Of the kernel.", rich_help_panel=WHAT)
    ] = 1.0,
    components: Annotated[
        int,
        typer.Option("--components", "-k", metavar="N", min=1, help="How many functions.", rich_help_panel=WHAT),
    ] = 10,
    points: Annotated[
        int, typer.Option("--points", metavar="N", min=2, help="Random positions to learn from.", rich_help_panel=HOW)
    ] = 1024,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of everything random.", rich_help_panel=HOW)] = 0,
    force: ForceOption = False,
    json: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Learn the eigenfunctions of the Gaussian kernel on [-2, 2] and draw them over the true ones.

    As in the paper: 1,024 random positions to learn from, 2,048 evenly spaced ones to compare on. The functions are
    those of `NeuralEigenmap` as it comes, with no settings but the kernel's.
    """
    from eigenmap.figures.eigenfunctions import eigenfunction_figure
    from eigenmap.figures.style import save

    stem = out.with_suffix("") if out.suffix in (".svg", ".png") else out
    files = [stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png")]
    for file in [*files, *([] if json is None else [json])]:
        check_file(file, force)
    say = log_function(quiet)
    say(f"Learning {components} functions from {points:,} points ...")
    found = learn_rbf(length_scale, components, points, seed)
    save(eigenfunction_figure(found), stem)
    if json is not None:
        write_json_output(json, figure_summary(found) | {"length_scale": length_scale, "points": points, "seed": seed})
    print_result(f"alignment |<psi_j, phi_j>|: {' '.join(f'{value:.3f}' for value in found.alignment)}")
    print_result(f"relative error of eigenvalues: {' '.join(f'{value:.1%}' for value in found.eigenvalue_errors)}")
    print_result(f"largest inner product of two learned functions: {found.off_diagonal:.3f}")
    print_result(f"Figure: {', '.join(map(str, files))}")


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
    import numpy as np

    from eigenmap.estimators import NeuralEigenmap
    from eigenmap.figures.eigenfunctions import Eigenfunctions

    grid = HALF * (2 * np.arange(GRID, dtype=float)[:, None] + 1 - GRID) / GRID
    mu, phi = true_rbf(grid, length_scale, n_components)
    x = np.random.default_rng(seed).uniform(-HALF, HALF, (points, 1))
    model = NeuralEigenmap(n_components, kernel="rbf", kernel_params={"length_scale": length_scale}, random_state=seed)
    learned = model.fit(x).transform(grid)
    k = learned.shape[1]  # the rank found, where that is below what was asked for
    return Eigenfunctions(grid[:, 0], learned, phi[:, :k], model.eigenvalues_, mu[:k])


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
