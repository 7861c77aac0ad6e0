"""Pages of the site that are made when it is built, links out of docs/, and what `make docs` checks.

Building the whole site needs the extra `docs`; `make docs` and `make release` do it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAV = re.findall(r"- [^:]+: ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)


def test_every_page_has_a_place_in_the_navigation() -> None:
    import site_hooks

    made = {name for name, _ in site_hooks.made_pages()}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert set(NAV) == (pages | made)
    assert len(NAV) == len(set(NAV))


def test_the_command_line_is_described_completely() -> None:
    import cli_reference
    import typer

    from eigenmap.cli import app

    page = cli_reference.page()
    root = typer.main.get_command(app)
    for name, verb in root.commands.items():  # type: ignore[attr-defined]
        assert f"`eigenmap {name}`" in page
        for parameter in verb.params:
            if parameter.param_type_name == "option":
                assert any(f"`{option}`" in page for option in parameter.opts), (name, parameter.name)
    assert "[cyan]" not in page and "[dim]" not in page
    assert "| `--device` `auto,cpu,cuda" in page and "--ready" in page


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    import site_hooks

    led = site_hooks.rewritten
    assert led("[a](../CONTRIBUTING.md#tests)", "index.md") == "[a](contributing.md#tests)"
    assert led("[a](../../README.md)", "howto/photos.md") == "[a](../index.md)"
    assert led("[a](../src/eigenmap/model/__init__.py)", "method.md") == "[a](source/src/eigenmap/model/__init__.py.md)"
    for same in ("[a](method.md)", "[a](https://x.org)", "[a](#top)", "```\n[a](../README.md)\n```"):
        assert led(same, "index.md") == same
    assert site_hooks.from_the_root("[a](docs/method.md#two), [b](LICENSE)") == "[a](method.md#two), [b](../LICENSE)"
    assert site_hooks.linked_sources({"x.md": "[a](../LICENSE) [b](method.md)"}) == {"LICENSE"}
    assert "Apache License" in site_hooks.source_text("LICENSE")


def test_a_figure_of_a_table_stays_on_one_line() -> None:
    import site_hooks

    row = "<th>101 of 108</th><td>0.488 ± 0.025 (46 of 108)</td><td>64 %</td><td>not run</td><td>+1.2 / -3.4 / 5</td>"
    nbsp = "&nbsp;"
    kept = f"<th>101{nbsp}of{nbsp}108</th><td>0.488 ±{nbsp}0.025 (46{nbsp}of{nbsp}108)</td><td>64{nbsp}%</td>"
    kept += f"<td>not{nbsp}run</td><td>+1.2{nbsp}/ -3.4{nbsp}/ 5</td>"
    text = "<p>0.488 ± 0.025</p>"
    assert site_hooks.on_page_content(row + text, None, None, None) == kept + text


def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path) -> None:
    import check_site

    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.org/x.js"></script><link rel="stylesheet" href="https://f.org/y.css">'
        '<img src="//z.org/i.png"><a href="https://fine.org">a link</a><img src="images/fine.png">'
    )
    (tmp_path / "a.css").write_text("@font-face { src: url(https://g.org/f.woff) }")
    found = list(check_site.loaded_from_elsewhere(tmp_path))
    assert [re.search(r"(cdn|f|z|g)\.org", line) is not None for line in found] == [True] * 4


def test_the_theme_loads_no_fonts_and_search_works_without_a_server() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in text and "- offline" in text and "strict: true" in text
    assert "IFrameWorker" in (ROOT / "docs" / "frame-worker.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["images", "vectors", "graph", "kernel"])
def test_notebooks_run_and_their_outputs_are_stored(name: str) -> None:
    import notebooks

    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    notebook = notebooks.run(path, quick=True)
    assert all(cell.get("execution_count") for cell in notebook["cells"] if cell["cell_type"] == "code")
    page = notebooks.as_markdown(path)
    assert page.count("data:image/png;base64,") >= 1 and "```text" in page


def test_a_cell_prints_returns_and_draws(tmp_path: Path) -> None:
    import json

    import notebooks

    def cell(code: str) -> dict[str, object]:
        return {"cell_type": "code", "metadata": {}, "outputs": [], "source": [code]}

    path = tmp_path / "n.ipynb"
    cells = [cell("print('a')\n1 + 1"), cell("2;"), cell("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")]
    path.write_text(json.dumps({"cells": cells}))
    kinds = [[output["output_type"] for output in one["outputs"]] for one in notebooks.run(path)["cells"]]
    assert kinds == [["stream", "execute_result"], [], ["display_data"]]
    path.write_text(json.dumps({"cells": [cell("1 / 0")]}))
    with pytest.raises(notebooks.NotebookError, match="cell 1 failed: ZeroDivisionError"):
        notebooks.run(path)


def test_constraints_name_every_dependency_in_a_version_that_is_allowed() -> None:
    import dependencies

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for package, uses in dependencies.direct().items():
        for extra, requirement in uses:
            if not extra or package in pinned:
                assert requirement.specifier.contains(pinned[package]), package
    licences = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    assert all(f"| {package} |" in licences for package in dependencies.direct())
