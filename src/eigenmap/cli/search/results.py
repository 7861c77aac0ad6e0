"""Search results as tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigenmap.cli.console import print_result, printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from eigenmap.search import CodeIndex, Results
    from eigenmap.search.backend import Id


def results_as_json(index: str, similarity: str, queries: list[str], results: Results) -> dict[str, Any]:
    """Return the output of `eigenmap search --json`."""
    return {
        "index": index,
        "dim": results.dim,
        "similarity": similarity,
        "recall": results.recall,
        "results": [
            {
                "query": query,
                "found": [{"id": name, "score": float(score)} for name, score in zip(ids, scores, strict=True)],
            }
            for query, ids, scores in zip(queries, results.ids, results.scores, strict=True)
        ],
    }


TITLES = ("title", "text")
"""Fields that describe an item, the best one first."""
_LONGEST = 120


def show_results(
    queries: list[str], results: Results, titles: Mapping[Id, str] | None = None, heading: str = "file"
) -> None:
    """Print one table per query, with the titles of the items where there are any; `heading` is that of their names."""
    from rich.table import Table
    from rich.text import Text

    for query, ids, scores in zip(queries, results.ids, results.scores, strict=True):
        table = Table(title=Text(printable(query), style="bold"), title_justify="left")
        table.add_column("rank", justify="right")
        table.add_column("score", justify="right")
        table.add_column(heading, overflow="fold")
        if titles:
            table.add_column("title", overflow="fold")
        for rank, (name, score) in enumerate(zip(ids, scores, strict=True), start=1):
            more = [Text(printable(titles.get(name, "")))] if titles else []
            table.add_row(str(rank), f"{score:.4f}", Text(printable(str(name))), *more)
        print_result(table)


def titles_of(index: CodeIndex, results: Results) -> dict[Id, str]:
    """Return the titles or texts of the items found, one line each."""
    found = list(dict.fromkeys(name for ids in results.ids for name in ids))
    titles = {}
    for name, known in zip(found, index.metadata(found), strict=True):
        text = next((str(known[field]) for field in TITLES if known.get(field)), "")
        line = " ".join(text.split())
        if line:
            titles[name] = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    return titles
