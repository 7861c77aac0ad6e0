"""Exact eigenfunctions of kernels, the engine behind `estimators.NeuralEigenmap`."""
