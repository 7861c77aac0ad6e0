"""Kernels: exact eigenfunctions, the engine behind `estimators.NeuralEigenmap`."""
