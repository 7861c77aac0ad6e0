"""PostgreSQL back end, using pgvector.

    index = CodeIndex(256, backend="postgres", where="postgresql://localhost/pictures", table="photos")
    index.add(codes, ids)
    CodeIndex.open("postgresql://localhost/pictures", table="photos").search(queries, dim=64)

`statements` contains the SQL, `tables` creates and recognises tables, `load` fills one with any number of codes.
"""

from eigenmap.search.postgres.backend import PostgresBackend
from eigenmap.search.postgres.load import LoadReport, load_table

__all__ = ["LoadReport", "PostgresBackend", "load_table"]
