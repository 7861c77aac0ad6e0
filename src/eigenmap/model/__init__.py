"""Trained model: images, node features or vectors in, ordered codes of any length out.

    model = Eigenmap.load("runs/mine")
    codes = model.encode(images, dim=16)          # (n, 16) float32, rows of norm 1
    model.eigenvalues_                            # share of each feature that two views have in common
    model.suggest_dim(recall=0.95)                # the shortest code that keeps 95 % of the neighbours

A saved model is a directory with `model.json` (its description) and `model.safetensors` (its weights). Loading it does
not execute any code from these files.
"""

from eigenmap.description import CHECKPOINT, DESCRIPTION, WEIGHTS
from eigenmap.model.eigenmap import Codes, Eigenmap, Kind, Side, Weighting
from eigenmap.model.files import copy_model, weights_file
from eigenmap.model.inputs import EncoderSpec, ImageInput, NodeEncoderSpec, NodeInput
from eigenmap.networks import CodeSource

__all__ = [
    "CHECKPOINT",
    "DESCRIPTION",
    "WEIGHTS",
    "CodeSource",
    "Codes",
    "Eigenmap",
    "EncoderSpec",
    "ImageInput",
    "Kind",
    "NodeEncoderSpec",
    "NodeInput",
    "Side",
    "Weighting",
    "copy_model",
    "weights_file",
]
