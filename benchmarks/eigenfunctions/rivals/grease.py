"""GrEASE, from its own package: a spectral embedding of its own neighbour graph, with a network that generalises.

It takes points and builds the graph itself (nearest neighbours, local scales, random-walk Laplacian), so its
eigenproblem is not the kernel's. It applies to points in a space, not to a given Gram matrix or graph.

Ben-Ari, Yacobi, Shaham: Generalizable Spectral Embedding with an Application to UMAP. 2025.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable

import torch
from torch import Tensor


def grease(
    x: Tensor, k: int, *, width: int, epochs: int, rate: float, seed: int
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return k functions, the trivial one first, and 1 minus the eigenvalues of the Laplacian."""
    from grease import GrEASE

    torch.manual_seed(seed)
    model = GrEASE(
        n_components=k - 1,
        spectral_hiddens=[width, width],
        spectral_max_epochs=epochs,
        spectral_lr=rate,
        should_return_first_eigenvector=True,
    )
    # It prints, draws progress bars, and issues warnings about its own code.
    quiet = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        warnings.simplefilter("ignore")
        model.fit(x.float().clone())  # it normalises in place

    def functions(new: Tensor) -> Tensor:
        # Its own `transform` would standardise new points by their own moments instead of the training points'.
        standard = ((new - x.mean(0)) / x.std(0)).float()
        return torch.from_numpy(model._predict(standard) @ model.ortho_matrix).double()

    return 1 - torch.as_tensor(model.eigenvalues).double(), functions
