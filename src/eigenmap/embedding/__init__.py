"""Codes of any number of images, in constant memory.

    embed_images("runs/mine", "PHOTOS/", "codes/", dim=64)

Images are read, decoded on threads and encoded block by block; codes are written in shards. A finished shard is never
computed again: after a kill, the same call continues where it stopped. See :mod:`eigenmap.embedding.engines` for
several processes, GPUs and machines.
"""

from eigenmap.embedding.blocks import Block, encode_blocks
from eigenmap.embedding.job import Embedded, embed_images

__all__ = ["Block", "Embedded", "embed_images", "encode_blocks"]
