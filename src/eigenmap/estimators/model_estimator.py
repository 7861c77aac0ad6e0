"""Base class of the estimators that fit an `Eigenmap`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state

from eigenmap.core.errors import EigenmapError
from eigenmap.model import Eigenmap


class ModelEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Estimator whose `fit` stores an `Eigenmap` as `model_`; subclasses have a parameter `random_state`."""

    model_: Eigenmap
    random_state: Any

    def _fitted(self) -> Eigenmap:
        if not hasattr(self, "model_"):
            raise _NotFitted(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return self.model_

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _n_features_out(self) -> int:
        return self._fitted().n_components


class _NotFitted(EigenmapError, NotFittedError):  # type: ignore[misc]
    """An EigenmapError that scikit-learn's tools and `hasattr` recognise."""
