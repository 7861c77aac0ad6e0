r"""Ordered codes from any trained network, by the Rayleigh-Ritz method.

A network psi: X -> R^k spans a space of functions. Over pairs (x, x+) of a relation, collect

    C = E[psi psi^T]   (both views),        A = sym E[psi(x) psi(x+)^T],

both centred, and solve the *signed* generalised eigenproblem

    A v = mu (C + gamma I) v,        mu_1 >= mu_2 >= ...

The features phi_j = v_j . (psi - m) are the best approximation within the span to the eigenfunctions of the relation:
uncorrelated and sorted. The eigenvalue mu_j = E[phi_j(x) phi_j(x+)] / E[phi_j^2] is the share of feature j that two
related items have in common. The ridge gamma leads from exact Ritz features (gamma = 0) to the principal components of
the shared covariance A (gamma = infinity); it also reduces the effect of noise in C.

In-sample Ritz values are biased: with k features and N pairs, the best of k noisy directions looks significant.
Therefore only the rotation comes from the pairs of the fit. Everything that is reported or decided (eigenvalues, order,
weights, the exponent t, the ridge, whether to rotate at all, suggested lengths) comes from held-out pairs.

A code is phi_j(x) * max(mu_j, 0)^t up to a common factor: t steps of diffusion, which keep unshared features from
disturbing long codes.

    fit, held_out = Moments(k), Moments(k)
    fit.update(psi, psi_plus); held_out.update(...)          # stream, in any number of batches
    alignment = best_alignment(fit, held_out, (psi_held, psi_plus_held))
    codes = alignment.apply(psi, dim=16)

Codes of images are one map of both outputs of the network, encoder and projector, with a fixed ridge and t = 0
(`staged`). Their order comes from the pairs of the fit. `best_alignment` makes the other codes.

In reading order: `moments` (C and A), `ritz` (the eigenproblem), `alignment` (codes, suggested lengths), `quality`
(measures on held-out pairs), `choice` (`best_alignment`: ridge, order and t), `staged` (codes of both outputs).
"""

from eigenmap.spectrum.alignment import Alignment
from eigenmap.spectrum.choice import EXPONENTS, RIDGES, best_alignment
from eigenmap.spectrum.moments import Moments, unit_rms_rows
from eigenmap.spectrum.quality import agreement, captured, neighbour_agreement
from eigenmap.spectrum.ritz import align, own_order

__all__ = [
    "EXPONENTS",
    "RIDGES",
    "Alignment",
    "Moments",
    "agreement",
    "align",
    "best_alignment",
    "captured",
    "neighbour_agreement",
    "own_order",
    "unit_rms_rows",
]
