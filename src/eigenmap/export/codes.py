"""Export of the codes of an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from eigenmap.core.arguments import a_path, whole_number
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import atomic_write, json_bytes, read_json, sync_directory
from eigenmap.data.parquet import parquet_module
from eigenmap.embedding.files import remove_names
from eigenmap.embedding.shards import FINGERPRINT, code_table
from eigenmap.search import CodeIndex, forking
from eigenmap.search.backend import Floats, Id
from eigenmap.search.scan import comparable

_ROWS_AT_ONCE = 16_384
_MOST = 2**63


def export_parquet(index: CodeIndex, out: str | Path, dim: int | None = None, *, overwrite: bool = True) -> int:
    """Write the columns id and code (a list of `dim` float32) and return the number of rows.

    Codes are cut at `dim` and have norm 1 if the index compares by cosine. Without `overwrite`, a file that exists when
    the codes are written is kept, and an error is raised.
    """
    pq = parquet_module()
    about = {FINGERPRINT: index.fingerprint or "", "eigenmap_metric": index.metric}
    batches = _batches(index, dim)
    nothing: tuple[list[Id], Floats] = [], np.empty((0, _length(index, dim)), np.float32)
    first = code_table(*next(batches, nothing), about)  # its ids determine the column type
    rows = len(first)
    with atomic_write(a_path(out, "out"), replace=overwrite) as file, pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for ids, codes in batches:
            writer.write_table(code_table(ids, codes, about))
            rows += len(ids)
    return rows


def faiss_names_file(out: Path) -> Path:
    """Return the file for text ids of a FAISS index; codes.ids.json would belong to codes.npy."""
    return out.with_name(f"{out.name}.ids.json")


def export_faiss(index: CodeIndex, out: str | Path, dim: int | None = None, *, overwrite: bool = True) -> Path | None:
    """Write a flat FAISS index of inner products, which are cosine similarities if the index compares by cosine.

    Integer ids are kept. FAISS has no text ids: for these it counts from 0, and a JSON file beside the index lists the
    texts in that order (codes.faiss.ids.json for codes.faiss). Returns that file. Without `overwrite`, files that exist
    when the index is written are kept, and an error is raised.

    Whenever the process is killed, the text at place i of the file is that of id i: a new index appears after its
    texts, and another one replaces it in steps (`_bridge`). Only if texts replace integer ids, or the reverse, can a
    kill leave an index without a file of texts; the same export then completes it.

        found = faiss.read_index("codes.faiss")
        scores, ids = found.search(queries, 10)

    """
    faiss = forking.faiss()
    out = a_path(out, "out")
    flat = faiss.IndexFlatIP(_length(index, dim))
    numbered = faiss.IndexIDMap2(flat)
    texts: list[str] = []
    for ids, codes in _batches(index, dim):
        if isinstance(ids[0], int):
            numbered.add_with_ids(codes, np.array(ids, np.int64))
        else:
            numbered.add_with_ids(codes, np.arange(len(texts), len(texts) + len(ids)))
            texts += map(str, ids)
    names = faiss_names_file(out)
    is_new = not out.exists()
    with ExitStack() as files:
        # The file opened last is published first: the texts of a new index before it, those of a replaced one after.
        order = [out, names] if is_new else [names, out]
        opened = {
            path: files.enter_context(atomic_write(path, replace=overwrite)) for path in order if texts or path == out
        }
        made = flat if texts or not numbered.ntotal else numbered
        faiss.write_index(made, faiss.PyCallbackIOWriter(opened[out].write))
        if texts:
            opened[names].write(json_bytes(texts))
        for file in opened.values():
            file.flush()  # so that a full disk is noticed before anything is published
        for path in (out, names):
            _hidden(path).unlink(missing_ok=True)  # left by a killed export
        old = None if is_new or not overwrite else _texts(names)
        if old is not None and texts:
            _bridge(numbered, texts, old, out, names)
        elif overwrite and not (is_new and texts):
            remove_names(names)
    return names if texts else None


def _bridge(numbered: Any, texts: list[str], old: list[str], out: Path, names: Path) -> None:
    """Replace an index and its texts such that the final index and then the final texts can be put in their places.

    Both files cannot change at the same instant, so each step changes one and leaves a valid pair: texts for the
    numbers of the old index and, behind them, for other numbers of the new one; the new index with those numbers; its
    texts at those and at the final numbers.
    """
    if texts == old:
        return
    faiss = forking.faiss()
    first = max(len(old), len(texts))
    with _replacing(names) as file:
        file.write(json_bytes([*old, *[""] * (first - len(old)), *texts]))
    faiss.copy_array_to_vector(np.arange(first, first + len(texts)), numbered.id_map)
    with _replacing(out) as file:
        faiss.write_index(numbered, faiss.PyCallbackIOWriter(file.write))
    with _replacing(names) as file:
        file.write(json_bytes([*texts, *[""] * (first - len(texts)), *texts]))


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces another one, while `atomic_write` keeps other writers out and the last content."""
    with atomic_write(_hidden(path)) as file:
        yield file
    try:
        _hidden(path).replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise EigenmapError(f"{path} cannot be written: {error.strerror or error}") from error


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.step")


def _texts(names: Path) -> list[str] | None:
    """Return the texts of the index that is there, or None if there are none."""
    try:
        found = read_json(names)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, list) and all(isinstance(text, str) for text in found) else None


def _batches(index: CodeIndex, dim: int | None) -> Iterator[tuple[list[Id], Floats]]:
    length = _length(index, dim)
    for batch in index.batches(_ROWS_AT_ONCE):
        for name in batch.ids:
            if isinstance(name, int) and not -_MOST <= name < _MOST:
                raise EigenmapError(f"the id {name} does not fit into the 64 bits of Parquet and FAISS; use text ids")
        yield batch.ids, comparable(batch.codes[:, :length], index.metric)


def _length(index: CodeIndex, dim: int | None) -> int:
    return index.n_components if dim is None else whole_number(dim, "dim", 1, index.n_components)
