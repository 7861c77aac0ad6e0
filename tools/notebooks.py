"""Notebooks of the documentation: run them, store their outputs, show them as pages.

    python tools/notebooks.py docs/notebooks/*.ipynb            # run every cell, store texts and plots
    python tools/notebooks.py --quick docs/notebooks/*.ipynb    # run them in a small form and change nothing

A notebook runs in a folder of its own, cell after cell, as Jupyter would: what a cell prints, the value of its last
line (unless it ends in a semicolon) and its open figures are its outputs. A cell of metadata
{"quick": {"steps=300": "steps=3"}} has these words replaced in the small form.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import os
import sys
import tempfile
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

RESOLUTION = 120
"""Dots per inch of the stored plots."""


class NotebookError(Exception):
    """A notebook whose cell failed."""


def run(path: Path, quick: bool = False) -> dict[str, Any]:
    """Run the cells of a notebook, and return it with their outputs."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
            for number, cell in enumerate(cells, start=1):
                code = "".join(cell["source"])
                if quick:
                    code = _small(code, cell["metadata"].get("quick", {}))
                try:
                    cell["outputs"] = _outputs(code, names, number)
                except Exception as error:
                    raise NotebookError(f"cell {number} failed: {type(error).__name__}: {error}\n{code}") from error
                cell["execution_count"] = number
        finally:
            os.chdir(before)
    return notebook


def _small(code: str, replacements: dict[str, str]) -> str:
    for old, new in replacements.items():
        if old not in code:
            raise NotebookError(f"there is no {old!r} to replace in {code!r}")
        code = code.replace(old, new)
    return code


def _outputs(code: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Execute a cell; return its outputs in the format of notebooks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    *body, last = ast.parse(code).body
    printed, value = io.StringIO(), None
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        if isinstance(last, ast.Expr) and not code.rstrip().endswith(";"):
            exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
        else:
            exec(compile(ast.Module([*body, last], []), "<cell>", "exec"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)})
    found += [_picture(figure) for figure in map(pyplot.figure, pyplot.get_fignums())]
    pyplot.close("all")
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        found.append({"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data})
    return found


def _picture(figure: Any) -> dict[str, Any]:
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=RESOLUTION, bbox_inches="tight", metadata={"Software": None})
    data = {"image/png": base64.b64encode(file.getvalue()).decode("ascii"), "text/plain": ["<Figure>"]}
    return {"output_type": "display_data", "metadata": {}, "data": data}


def as_markdown(path: Path) -> str:
    """Return a notebook as a page: texts, code, stored outputs, plots inside the page."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    parts = [part for cell in notebook["cells"] for part in _shown(cell)]
    return "\n\n".join([*parts, f"*This page is the notebook `docs/notebooks/{path.name}` of the repository.*"]) + "\n"


def _shown(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        return [source]
    parts = [f"```python\n{source}\n```"]
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            parts.append(f"![Plot](data:image/png;base64,{data['image/png']})")
        else:
            parts.append("```text\n" + "".join(output.get("text") or data["text/plain"]).rstrip() + "\n```")
    return parts


def main() -> int:
    """Run notebooks, and store their outputs unless in the small form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=Path)
    parser.add_argument("--quick", action="store_true", help="small form; change nothing")
    arguments = parser.parse_args()
    for path in arguments.notebooks:
        try:
            notebook = run(path, arguments.quick)
        except NotebookError as error:
            print(f"{path}: {error}")
            return 1
        if not arguments.quick:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: {sum(cell['cell_type'] == 'code' for cell in notebook['cells'])} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
