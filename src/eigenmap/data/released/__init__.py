"""The paper's data sets in their released layouts: files with their labels, split into gallery and queries.

coco = read_released("coco", Path("COCO/"))
len(coco.gallery.files), coco.queries.labels.names
"""

from eigenmap.data.released.coco import read_coco
from eigenmap.data.released.layout import Listing, Released
from eigenmap.data.released.mirflickr import read_mirflickr
from eigenmap.data.released.nus_wide import read_nus_wide
from eigenmap.data.released.ogb_folder import is_ogb_folder, read_ogb_folder
from eigenmap.data.released.sets import RELEASED, ReleasedSet, read_released
from eigenmap.data.released.voc import read_voc

__all__ = [
    "RELEASED",
    "Listing",
    "Released",
    "ReleasedSet",
    "is_ogb_folder",
    "read_coco",
    "read_mirflickr",
    "read_nus_wide",
    "read_ogb_folder",
    "read_released",
    "read_voc",
]
