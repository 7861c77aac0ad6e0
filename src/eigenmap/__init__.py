"""Ordered embeddings: features sorted by importance, so that one stored code can be cut at any length.

import eigenmap as em

model = em.fit_images("PHOTOS/", n_components=256)
codes = model.encode(images, dim=16)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from eigenmap.core.errors import EigenmapError

if TYPE_CHECKING:
    from eigenmap.data.graphs.files import save_graph
    from eigenmap.data.graphs.graph import Graph, load_graph
    from eigenmap.embedding import embed_images
    from eigenmap.estimators import NeuralEigenmap
    from eigenmap.estimators.graph import GraphEigenmap
    from eigenmap.estimators.pair import PairEigenmap
    from eigenmap.fitting.graph import fit_graph
    from eigenmap.fitting.images import fit_images
    from eigenmap.fitting.towers import fit_towers
    from eigenmap.fitting.vectors import fit_vectors
    from eigenmap.linear.align_pairs import align_pairs
    from eigenmap.linear.timescales import implied_timescales
    from eigenmap.model import Eigenmap
    from eigenmap.search import CodeIndex
    from eigenmap.spectrum import Alignment, Moments, align, best_alignment

__all__ = [
    "Alignment",
    "CodeIndex",
    "Eigenmap",
    "EigenmapError",
    "Graph",
    "GraphEigenmap",
    "Moments",
    "NeuralEigenmap",
    "PairEigenmap",
    "align",
    "align_pairs",
    "best_alignment",
    "embed_images",
    "fit_graph",
    "fit_images",
    "fit_towers",
    "fit_vectors",
    "implied_timescales",
    "load_graph",
    "save_graph",
]
__version__ = "0.1.0"

# Imported on first use: torch takes seconds to import, and `eigenmap --help` does not need it.
_HOMES = {
    "CodeIndex": "eigenmap.search",
    "embed_images": "eigenmap.embedding",
    "fit_images": "eigenmap.fitting.images",
    "fit_graph": "eigenmap.fitting.graph",
    "fit_towers": "eigenmap.fitting.towers",
    "fit_vectors": "eigenmap.fitting.vectors",
    "GraphEigenmap": "eigenmap.estimators.graph",
    "PairEigenmap": "eigenmap.estimators.pair",
    "save_graph": "eigenmap.data.graphs.files",
    **dict.fromkeys(["Graph", "load_graph"], "eigenmap.data.graphs.graph"),
    "Eigenmap": "eigenmap.model",
    "align_pairs": "eigenmap.linear.align_pairs",
    "implied_timescales": "eigenmap.linear.timescales",
    "NeuralEigenmap": "eigenmap.estimators",
    **dict.fromkeys(["Alignment", "Moments", "align", "best_alignment"], "eigenmap.spectrum"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'eigenmap' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
