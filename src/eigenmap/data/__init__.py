"""Images, their labels, and where both come from.

:func:`load_images` reads folders, files and arrays into an :class:`ImageSet`; :func:`to_pixels` takes images that
are in memory already; :mod:`eigenmap.data.catalogue` is a small set that comes with the package.
"""

from eigenmap.data import catalogue
from eigenmap.data.arrays import to_pixels
from eigenmap.data.imageset import ImageSet
from eigenmap.data.labels import Labels, labels_from_csv, labels_from_folders
from eigenmap.data.sources import load_images

__all__ = [
    "ImageSet",
    "Labels",
    "catalogue",
    "labels_from_csv",
    "labels_from_folders",
    "load_images",
    "to_pixels",
]
