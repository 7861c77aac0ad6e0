"""Search among stored codes, cut at any length per query.

index = CodeIndex(n_components=256)
index.add(codes, ids)                       # codes (n, 256), ids str or int
index.search(queries, top=10, dim=16).ids   # one list of ids per query, nearest first
"""

from eigenmap.search.backend import Approximate
from eigenmap.search.index import CodeIndex, Results

__all__ = ["Approximate", "CodeIndex", "Results"]
