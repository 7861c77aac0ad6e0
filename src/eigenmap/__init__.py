"""Ordered embeddings: features sorted by importance, so that one stored code can be cut at any length.

import eigenmap as em

model = em.fit_images("PHOTOS/", n_components=256)
codes = model.encode(images, dim=16)
"""

from eigenmap.errors import EigenmapError
from eigenmap.fit import fit_images
from eigenmap.model import Eigenmap
from eigenmap.spectrum import Alignment, Moments, align, best_alignment

__all__ = ["Alignment", "Eigenmap", "EigenmapError", "Moments", "align", "best_alignment", "fit_images"]
__version__ = "0.1.0"
