"""The paper's image sets in their released layouts: files with their labels, split into gallery and queries.

coco = read_released("coco", Path("COCO/"))
len(coco.gallery.files), coco.queries.labels.names
"""

from eigenmap.data.images.released.coco import read_coco
from eigenmap.data.images.released.layout import Listing, Released
from eigenmap.data.images.released.mirflickr import read_mirflickr
from eigenmap.data.images.released.nus_wide import read_nus_wide
from eigenmap.data.images.released.sets import RELEASED, ReleasedSet, read_released
from eigenmap.data.images.released.voc import read_voc

__all__ = [
    "RELEASED",
    "Listing",
    "Released",
    "ReleasedSet",
    "read_coco",
    "read_mirflickr",
    "read_nus_wide",
    "read_released",
    "read_voc",
]
