"""Page about stored codes or plain vectors: how much of a search short codes keep, measured on the items themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from eigenmap.figures import report
from eigenmap.figures.curves import Curve, retrieval_curves
from eigenmap.figures.report import Page, Section
from eigenmap.search.advisor import Advice, funnel_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def advice_curves(advice: Advice) -> Figure:
    """Draw recall by length: of the first features, of principal components and of random features."""
    curves = [
        Curve("ours", "first features", {row.dim: row.prefix for row in advice.prefixes}),
        Curve("encoder-pca", "PCA of the codes", {row.dim: row.pca for row in advice.prefixes}),
        Curve("random", "random features", {row.dim: row.random for row in advice.prefixes}),
    ]
    return retrieval_curves({"": curves}, metric=f"recall@{advice.top} of full length")


def advice_page(name: str, n_features: int, advice: Advice, learned: bool = False) -> Page:
    """Return the page about items with this many features each; `learned` if they are codes of a model."""
    chosen = advice.chosen
    glance = [
        (f"{advice.items:,}", "items"),
        (str(n_features), "features each"),
        (str(chosen.dim), f"features in the recommended search, recall {chosen.recall:.3f}"),
    ]
    rows = [
        (row.name, funnel_text(row.stages), f"{row.recall:.3f}", f"{row.queries_per_second:,.0f}")
        for row in advice.rows
    ]
    sections = [
        Section("At a glance", [report.key_figures(glance), *map(report.paragraph, map(_sentence, advice.remarks))])
    ]
    if advice.prefixes:
        share = f"Share of the {advice.top} nearest items by all features that codes of each length find, in a sample."
        order = (
            "Principal components may be ahead: features of a model are sorted by what pairs share, not by this share."
            if learned
            else "If principal components are ahead of the first features, the features are not in order; eigenmap fit "
            "vectors orders them."
        )
        sections.append(Section("Recall by length", [report.figure(advice_curves(advice), f"{share} {order}")]))
    sections.append(
        Section(
            "Searches",
            [report.table(("search", "features:kept", "recall", "queries/s"), rows, strong=advice.rows.index(chosen))],
        )
    )
    return Page(
        title=name,
        lead=f"How much of a search short codes keep, measured on {advice.queries} of the items themselves.",
        sections=sections,
        footer=f"Made by eigenmap report, with a wanted recall of {advice.wanted_recall:g}.",
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
