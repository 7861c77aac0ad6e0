"""Search results as tables and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eigenmap.cli.console import print_result, printable

if TYPE_CHECKING:
    from eigenmap.search import Results


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


def show_results(queries: list[str], results: Results) -> None:
    """Print one table per query."""
    from rich.table import Table
    from rich.text import Text

    for query, ids, scores in zip(queries, results.ids, results.scores, strict=True):
        table = Table(title=Text(printable(query), style="bold"), title_justify="left")
        table.add_column("rank", justify="right")
        table.add_column("score", justify="right")
        table.add_column("file", overflow="fold")
        for rank, (name, score) in enumerate(zip(ids, scores, strict=True), start=1):
            table.add_row(str(rank), f"{score:.4f}", Text(printable(str(name))))
        print_result(table)
