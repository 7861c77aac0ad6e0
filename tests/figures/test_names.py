from __future__ import annotations

from eigenmap.figures.names import DATA_FIGURES, FIGURES
from eigenmap.figures.study import Study, draw_figures
from tests.cli.run import succeed


def test_every_figure_has_something_that_draws_it() -> None:
    assert draw_figures(Study(None), FIGURES) == {}
    assert set(DATA_FIGURES) == {name for name, about in FIGURES.items() if "--data" in about.needs}


def test_the_help_says_which_figure_needs_what() -> None:
    text = " ".join(succeed("figures", "--help").out.split())
    for name, about in FIGURES.items():
        assert f"{name} {about.shows} {about.needs}" in text
