"""Estimators with the interface of scikit-learn.

from eigenmap.estimators import GraphEigenmap, NeuralEigenmap, PairEigenmap

codes = NeuralEigenmap(10, kernel="rbf", kernel_params={"length_scale": 0.3}).fit_transform(X)
"""

from eigenmap.estimators.graph import GraphEigenmap
from eigenmap.estimators.neural_eigenmap import NeuralEigenmap
from eigenmap.estimators.pair import PairEigenmap

__all__ = ["GraphEigenmap", "NeuralEigenmap", "PairEigenmap"]
