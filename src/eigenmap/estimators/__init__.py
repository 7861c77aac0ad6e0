"""scikit-learn estimators.

from eigenmap.estimators import NeuralEigenmap

codes = NeuralEigenmap(10, kernel="rbf", kernel_params={"length_scale": 0.3}).fit_transform(X)
"""

from eigenmap.estimators.neural_eigenmap import NeuralEigenmap

__all__ = ["NeuralEigenmap"]
