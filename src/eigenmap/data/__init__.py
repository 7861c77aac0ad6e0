"""Images and graphs, their labels, and their sources.

:func:`load_images` reads folders, files and arrays into an :class:`ImageSet`; :func:`to_pixels` converts images in
memory; :mod:`eigenmap.data.images.catalogue` is a small set included in the package. :func:`load_graph` reads a
:class:`Graph` from files and from the objects of other libraries.
"""

from eigenmap.data.graphs.adjacency import Adjacency, build_adjacency
from eigenmap.data.graphs.files import save_graph
from eigenmap.data.graphs.graph import Graph, load_graph
from eigenmap.data.graphs.sources import load_ogb, load_pyg
from eigenmap.data.images import catalogue
from eigenmap.data.images.arrays import to_pixels
from eigenmap.data.images.imageset import ImageSet
from eigenmap.data.images.labels import Labels, labels_from_csv, labels_from_folders
from eigenmap.data.images.sources import load_images

__all__ = [
    "Adjacency",
    "Graph",
    "ImageSet",
    "Labels",
    "build_adjacency",
    "catalogue",
    "labels_from_csv",
    "labels_from_folders",
    "load_graph",
    "load_images",
    "load_ogb",
    "load_pyg",
    "save_graph",
    "to_pixels",
]
