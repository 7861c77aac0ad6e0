"""Parts of generated pages: tables, figures with their spread, and provenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOT_RUN = "not run"
NONE = "–"
"""A cell that cannot exist, such as feature 1,024 of an encoder that has 512."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; the first column is aligned left, all others right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(values: Sequence[float], digits: int = 3) -> str:
    """Format one value, or the mean and sample standard deviation of several.

    >>> figure([0.5]), figure([0.4, 0.6])
    ('0.500', '0.500 ± 0.141')
    """
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def emphasise(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return rows with the largest number of every column in bold (ties too); the first column is a name.

    >>> emphasise([["a", "0.500"], ["b", "0.400 ± 0.1"], ["c", "not run"]])
    [['a', '**0.500**'], ['b', '0.400 ± 0.1'], ['c', 'not run']]
    """
    out = [list(row) for row in rows]
    for column in range(1, len(out[0]) if out else 0):
        figures = {i: row[column].split()[0] for i, row in enumerate(out) if row[column][:1].isdigit()}
        best = max(figures.values(), default=None, key=float)
        for i, text in figures.items():
            if text == best and len(figures) > 1:
                out[i][column] = f"**{out[i][column]}**"
    return out


def lost(tables: Iterable[tuple[str, Sequence[Sequence[str]]]], columns: Sequence[str]) -> str:
    """Return a list of the rows that are ahead of the first row of each table, and the columns in which they are.

    >>> rows = [["ours", "0.5", "0.6"], ["theirs", "0.4", "0.7 ± 0.1"], ["other", "–", "not run"]]
    >>> lost([("birds", rows)], ["2", "8"])
    '- birds: theirs at 8.'
    >>> lost([("birds", rows[:1])], ["2", "8"])
    '- birds: none.'
    """

    def number(cell: str) -> float | None:
        return float(cell.split()[0]) if cell[:1].isdigit() else None

    lines = []
    for name, (ours, *others) in tables:
        said = []
        for label, *cells in others:
            pairs = zip(columns, map(number, ours[1:]), map(number, cells), strict=True)
            ahead = [column for column, a, b in pairs if a is not None and b is not None and b > a]
            said += [f"{label} at {', '.join(ahead)}"] if ahead else []
        lines.append(entry(name, said or ["none"]))
    return "\n".join(lines)


def entry(name: str, parts: Sequence[str]) -> str:
    r"""Return an entry of a list; several parts become a list of their own.

    >>> entry("birds", ["theirs at 8"]), entry("birds", ["theirs at 8", "others at 2"])
    ('- birds: theirs at 8.', '- birds:\n    - theirs at 8\n    - others at 2')
    """
    if len(parts) == 1:
        return f"- {name}: {parts[0]}."
    return "\n".join([f"- {name}:", *(f"    - {part}" for part in parts)])


def renewed(text: str, what: str, inner: str) -> str:
    """Return a page with new content between `<!-- what -->` and the next `<!-- end of tables -->`.

    >>> renewed("a <!-- x --> old <!-- end of tables --> b", "x", "new").split()
    ['a', '<!--', 'x', '-->', 'new', '<!--', 'end', 'of', 'tables', '-->', 'b']
    """
    begin, end = f"<!-- {what} -->", "<!-- end of tables -->"
    before, found, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (found and ended):
        raise SystemExit(f"The page has lost the lines '{begin}' and '{end}'.")
    return f"{before}{begin}\n\n{inner}\n\n{end}{after}"


def made_by(results: Sequence[dict[str, Any]]) -> str:
    """Return device, commits, dates and seeds behind a table, in one line."""
    if not results:
        return "No run yet."

    def all_of(name: str) -> str:
        return ", ".join(sorted({str(result[name]) for result in results}))

    seeds = sorted({result["job"]["seed"] for result in results if "job" in result})
    said = [f"{all_of('device')}, torch {all_of('torch')}", f"commit {all_of('commit')}", all_of("date")]
    if seeds:
        said.append(f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}")
    said.append(f"{len(results)} {'run' if len(results) == 1 else 'runs'}")
    return "; ".join(said) + "."


def accuracies(result: dict[str, Any] | None, *names: str) -> list[str]:
    """Return cells with these figures of a run; "not run" or "collapsed" if there are none."""
    if result is None:
        return [NOT_RUN] * len(names)
    if "collapsed" in result:
        return ["collapsed"] * len(names)
    return [f"{result[name]:.3f}" if name in result else NOT_RUN for name in names]


def write_figure(figure: Figure, path: Path) -> None:
    """Write a small PNG and print its path."""
    from eigenmap.figures.style import png

    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png(figure, dpi=100))
    print(path)
