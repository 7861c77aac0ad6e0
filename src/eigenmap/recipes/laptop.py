"""Recipes for a computer without a GPU."""

from eigenmap.recipes.recipe import Recipe

LAPTOP = Recipe(name="laptop", objective="scl", clip_norm=1.0, epochs=30)
"""Photos on two or more CPU cores: minutes for a few thousand images."""

CATALOGUE = Recipe(name="catalogue", n_components=128, views="catalogue", epochs=13, lr=0.006, channels_last=True)
"""The embedded catalogue of small, centred, upright pictures, in which strong crops would destroy what matters.

Views and learning rate were chosen on its validation images; `benchmarks/catalogue/runs.py` tries some alternatives.
"""
