"""Export of the codes of an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from eigenmap.core.arguments import a_path, whole_number
from eigenmap.core.files import atomic_write, json_bytes
from eigenmap.data.parquet import parquet_module
from eigenmap.embedding.files import remove_names
from eigenmap.embedding.shards import FINGERPRINT, code_table
from eigenmap.search import CodeIndex, forking
from eigenmap.search.backend import Floats, Id
from eigenmap.search.scan import comparable

_ROWS_AT_ONCE = 16_384


def export_parquet(index: CodeIndex, out: str | Path, dim: int | None = None, *, overwrite: bool = True) -> int:
    """Write the columns id and code (a list of `dim` float32) and return the number of rows.

    Codes are cut at `dim` and have norm 1 if the index compares by cosine. Without `overwrite`, a file that exists when
    the codes are written is kept, and an error is raised.
    """
    pq = parquet_module()
    about = {FINGERPRINT: index.fingerprint or "", "eigenmap_metric": index.metric}
    rows = 0
    with atomic_write(a_path(out, "out"), replace=overwrite) as file:
        writer: Any = None
        for ids, codes in _batches(index, dim):
            table = code_table(ids, codes, about)
            if writer is None:  # the first ids determine the column type
                writer = pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
            rows += len(ids)
        if writer is not None:
            writer.close()
    return rows


def faiss_names_file(out: Path) -> Path:
    """Return the file for text ids of a FAISS index; codes.ids.json would belong to codes.npy."""
    return out.with_name(f"{out.name}.ids.json")


def export_faiss(index: CodeIndex, out: str | Path, dim: int | None = None, *, overwrite: bool = True) -> Path | None:
    """Write a flat FAISS index of inner products, which are cosine similarities if the index compares by cosine.

    Integer ids are kept. FAISS has no text ids: for these it counts from 0, and a JSON file beside the index lists the
    texts in that order (codes.faiss.ids.json for codes.faiss). Returns that file. It always matches the index beside
    it, even after a kill. A new index appears after its texts. If an index is replaced, the old texts are removed
    before, and the new ones are written after it. Without `overwrite`, files that exist when the index is written are
    kept, and an error is raised.

        found = faiss.read_index("codes.faiss")
        scores, ids = found.search(queries, 10)

    """
    faiss = forking.faiss()
    out = a_path(out, "out")
    length = _length(index, dim)
    flat = faiss.IndexFlatIP(length)
    made: Any = flat
    texts: list[Id] = []
    for ids, codes in _batches(index, dim):
        if isinstance(ids[0], int):
            made = faiss.IndexIDMap2(flat) if made is flat else made
            made.add_with_ids(codes, np.array(ids, np.int64))
        else:
            made.add(codes)
            texts += ids
    names = faiss_names_file(out)
    is_new = not out.exists()
    with ExitStack() as files:
        # The file opened last is published first: the texts of a new index before it, those of a replaced one after.
        order = [out, names] if is_new else [names, out]
        opened = {
            path: files.enter_context(atomic_write(path, replace=overwrite)) for path in order if texts or path == out
        }
        faiss.write_index(made, faiss.PyCallbackIOWriter(opened[out].write))
        if texts:
            opened[names].write(json_bytes(texts))
        for file in opened.values():
            file.flush()  # so that a full disk is noticed before anything is published
        if overwrite and not (is_new and texts):
            remove_names(names)
    return names if texts else None


def _batches(index: CodeIndex, dim: int | None) -> Iterator[tuple[list[Id], Floats]]:
    length = _length(index, dim)
    for batch in index.batches(_ROWS_AT_ONCE):
        yield batch.ids, comparable(batch.codes[:, :length], index.metric)


def _length(index: CodeIndex, dim: int | None) -> int:
    return index.n_components if dim is None else whole_number(dim, "dim", 1, index.n_components)
