"""Relevance judgements (qrels): grades of documents for queries.

Two formats are read: TREC's `query 0 document grade` without a header, and tab-separated `query document grade` with or
without a header (BEIR). Grades of 0 and below mean not relevant.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from eigenmap.core.errors import EigenmapError


class Qrels(NamedTuple):
    """Judgements as row numbers: entry k grades document `documents[k]` for query `queries[k]`."""

    queries: npt.NDArray[np.int64]
    documents: npt.NDArray[np.int64]
    grades: npt.NDArray[np.float64]
    unknown: int
    """Number of relevant entries with an unknown query or document."""


def read_qrels(path: Path) -> list[tuple[str, str, float]]:
    """Read (query, document, grade) of every line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise EigenmapError(f"The judgements in {path} cannot be read: {reason}.") from None
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        cells = line.split("\t") if line.count("\t") >= 2 else line.split()
        entry = _entry(cells)
        if entry is not None:
            found.append(entry)
        elif number > 1:  # the first line may be a header
            raise EigenmapError(
                f"Line {number} of {path} is not a judgement; write `query 0 document grade` or `query document grade`."
            )
    if not found:
        raise EigenmapError(f"{path} contains no judgements.")
    return found


def load_qrels(path: Path, query_ids: Sequence[str], document_ids: Sequence[str]) -> Qrels:
    """Read judgements, with queries and documents as row numbers of the given names."""
    row = {name: k for k, name in enumerate(query_ids)}
    column = {name: k for k, name in enumerate(document_ids)}
    entries = [(q, d, grade) for q, d, grade in read_qrels(path) if grade > 0]
    known = [(row[q], column[d], grade) for q, d, grade in entries if q in row and d in column]
    if not known:
        raise EigenmapError(
            f"{path} judges none of the given queries and documents; are query_ids and document_ids right?"
        )
    queries, documents, grades = zip(*known, strict=True)
    return Qrels(np.array(queries), np.array(documents), np.array(grades, float), len(entries) - len(known))


def load_ids(path: Path, count: int) -> list[str]:
    """Read one name per line."""
    return [line.strip() for line in load_lines(path, count, "ids")]


def load_lines(file: Path, count: int, what: str) -> list[str]:
    """Read one line per vector."""
    lines = read_lines(file, what)
    if len(lines) != count:
        raise EigenmapError(f"{file} has {len(lines):,} {what} for {count:,} vectors; give one per line.")
    return lines


def read_lines(file: Path, what: str) -> list[str]:
    """Read all lines; only line feeds end a line, since a text may contain other separators."""
    try:
        return [line.rstrip("\r") for line in file.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise EigenmapError(f"The {what} in {file} cannot be read: {reason}.") from None


def _entry(cells: Sequence[str]) -> tuple[str, str, float] | None:
    """Return one judgement, or None if the cells do not form one."""
    if len(cells) not in (3, 4):
        return None
    try:
        grade = float(cells[-1])
    except ValueError:
        return None
    return (cells[0].strip(), cells[-2].strip(), grade) if np.isfinite(grade) else None
