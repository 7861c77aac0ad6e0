"""The section of docs/paper.md that says who is ahead, with the same data, encoder, views and length of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from benchmarks.common.pages import NONE, NOT_RUN, table
from benchmarks.common.plan import Stored
from benchmarks.graphs.jobs import SETS
from benchmarks.paper import code_sections, detection, nodes, sections, table_1
from eigenmap.reproduce.table_5 import TITLES
from eigenmap.reproduce.table_6 import RIVALS
from eigenmap.reproduce.table_6 import TITLES as CODES

ORDERED, UNORDERED, DEFAULT = "ordered", "unordered", "our default"
BASELINES = {
    "simclr": "SimCLR",
    "swav": "SwAV",
    "moco": "MoCo v2",
    "byol": "BYOL",
    "simsiam": "SimSiam",
    "scl": "SCL",
    "barlow-twins": "Barlow Twins",
}
FORMS = {"paper": ORDERED, "paper-unordered": UNORDERED, "scl": DEFAULT}
GRAPH_FORMS = {ORDERED: "ordered", UNORDERED: "unordered", DEFAULT: "default"}
Values = dict[str, float]
POINTS, MAP = 0.5, 0.005
"""Smaller differences, in percentage points and in mAP, count as level: about twice the spread of seeds."""

HEAD = """\
## Ahead or not

Each table has differences: above 0, the form of the column is ahead. The forms are the paper's ordered one, its
unordered one and our default (SCL, then alignment).

- **The same for all:** data, encoder, views, batch and length of training.
- **Not the same:** rates were searched for SimCLR, SCL, Barlow Twins and the paper's forms, and not for the others.
- **Level** are differences below {points:g} points or {map:g} of mAP.
- **Caution:** the rules of our code were settled while looking at these sets, and our rows have at most three seeds."""


def results_of(method: str, stored: Stored) -> list[dict[str, Any]]:
    """The finished runs of a method, of either study."""
    if method in table_1.SHARED:
        names = [job.name for job in table_1.SHARED[method]]
    else:
        seeds = table_1.METHODS[method].seeds if method in table_1.METHODS else (0,)
        names = [table_1.Job(method, seed).name for seed in seeds]
    found = [stored.read(name) for name in names]
    return [result for result in found if result is not None and "collapsed" not in result]


def differences(own: Mapping[str, float], others: Mapping[str, float], digits: int) -> list[list[str]]:
    """A line per baseline: by how much each form is ahead of it."""
    lines = []
    for name, value in others.items():
        cells = [f"{form - value:+.{digits}f}" for form in own.values()]
        lines.append([name, *cells])
    return lines


def in_words(form: str, value: float, others: Mapping[str, float], level: float) -> str:
    """Say behind which baselines a form is, with which it is level, and of which it is ahead."""
    told = []
    for word, fits in (
        ("behind", lambda gap: gap <= -level),
        ("level with", lambda gap: abs(gap) < level),
        ("ahead of", lambda gap: gap >= level),
    ):
        names = [name for name, other in others.items() if fits(value - other)]
        told += [f"{word} {', '.join(names)}"] if names else []
    return f"- {form}: {'; '.join(told) or NOT_RUN}."


IN_SHORT = """\
**In short**: with the same data, network and length of training, the paper's objective is behind most of its rivals
here. Our default, SCL with alignment, is ahead of most. Nothing was run at the paper's scale, where the paper reports
its own form in first place. [Why it is behind here](#why-the-papers-forms-are-behind-here) says what is known of the
reasons."""


def in_short(stored: Stored) -> str:
    """The answer, with the numbers of comparisons won and lost."""
    own, others = linear(FORMS, stored), linear(BASELINES, stored)
    networks = {DEFAULT: "SCL"}  # the default's own network is no rival of it
    probes = {
        form: score([value - rival for name, rival in others.items() if networks.get(form) != name], POINTS)
        for form, value in own.items()
    }
    short = list(of_16_features(stored).values())
    codes = {form: score([forms[form] - rivals["SCL + PCA"] for forms, rivals in short], MAP) for form in short[0][0]}
    on_graphs = list(of_graphs(stored).values())

    def first(form: str) -> str:
        values = [(own[form], max(rivals.values())) for own, rivals in on_graphs]
        return score([-best if value is None else 100 * value - best for value, best in values], POINTS)

    order = (UNORDERED, ORDERED, DEFAULT)
    rows = [
        ["each baseline, linear probe (table 1)", *(probes.get(form, NOT_RUN) for form in order)],
        ["SCL with PCA, 16 features, three sets of images", *(codes.get(form, NONE) for form in order)],
        ["the best of the paper's rivals, 10 cells of five graphs (table 6)", *map(first, order)],
    ]
    return f"{IN_SHORT}\n\n{table(('against', *order), rows)}"


def score(gaps: Sequence[float], level: float) -> str:
    """Count the comparisons in which a form is ahead and behind."""
    if not gaps:
        return NOT_RUN
    ahead, behind = sum(gap >= level for gap in gaps), sum(gap <= -level for gap in gaps)
    return f"ahead in {ahead}, behind in {behind} of {len(gaps)}"


def section(stored: Stored) -> str:
    """The whole section."""
    parts = [HEAD.format(points=POINTS, map=MAP), *linear_probe(stored), *sweeps(stored), *short_codes(stored)]
    parts += [*graphs(stored), *transfer(stored)]
    return "\n\n".join(parts)


def linear(names: Mapping[str, str], stored: Stored) -> Values:
    """Return the linear probe of methods in percent, by their given names; methods without runs are left out."""
    runs = {name: results_of(method, stored) for method, name in names.items()}
    return {
        name: 100 * mean(result["linear_ridge_test"] for result in results) for name, results in runs.items() if results
    }


def linear_probe(stored: Stored) -> list[str]:
    """Table 1: percentage points of the linear probe."""
    own, others = linear(FORMS, stored), linear(BASELINES, stored)
    lines = differences(own, others, 1)
    for line in lines:
        if line[0] == "SCL" and DEFAULT in own:
            line[1 + list(own).index(DEFAULT)] = f"{NONE} (its network)"
    words = [
        in_words(f"The {form} form" if form != DEFAULT else "Our default, whose network is SCL's", value, rest, POINTS)
        for form, value in own.items()
        if (rest := {name: other for name, other in others.items() if form != DEFAULT or name != "SCL"})
    ]
    return ["Linear probe on CIFAR-10 (table 1), percentage points:", "\n".join(words), table(("against", *own), lines)]


def sweeps(stored: Stored) -> list[str]:
    """Tables 2, 3 and 4: percentage points of the unordered form above each baseline, by setting."""
    settings = {
        "batch {:,}": sections.by_batch_size(stored),
        "projector {:,}": sections.by_projector(stored),
        "{:,} epochs": sections.by_epochs(stored),
    }
    rivals = [*sections.COMPARED[:-1], sections.OVER_TIME[0]]
    rows = [
        [words.format(value), *(_gap(cells, rival) for rival in rivals)]
        for words, by_value in settings.items()
        for value, cells in by_value.items()
    ]
    text = "The unordered form by batch size, projector and length of training (tables 2, 3 and 4), percentage points:"
    return [text, table(("setting", *(f"against {BASELINES[rival]}" for rival in rivals)), rows)]


def _gap(cells: Mapping[str, str], rival: str) -> str:
    """Return how far the unordered form is ahead of a rival, or why that is not known."""
    if rival not in cells:
        return NONE
    ours, theirs = (cells[name].split()[0] for name in (UNORDERED, rival))
    if all(text.replace(".", "").isdigit() for text in (ours, theirs)):
        return f"{float(ours) - float(theirs):+.1f}"
    return NOT_RUN if NOT_RUN in (cells[UNORDERED], cells[rival]) else "collapsed"


def short_codes(stored: Stored) -> list[str]:
    """Codes of 16 features on each set: mAP over found."""
    head: tuple[str, ...] = ("against, at 16 features", f"the paper's {ORDERED} form", DEFAULT)
    rows, words = [], []
    for title, (own, others) in of_16_features(stored).items():
        rows += [[f"{title}: {line[0]}", *line[1:]] for line in differences(own, others, 3)]
        words += [in_words(f"{title}, {form}", value, others, MAP) for form, value in own.items()]
    return ["Retrieval with 16 features (tables 7 and 8, retrieval figure), mAP:", "\n".join(words), table(head, rows)]


def of_16_features(stored: Stored) -> dict[str, tuple[Values, Values]]:
    """Return mAP with 16 features of our forms and of the others, by set."""
    found = {}
    for title, (data, metric) in code_sections.SEARCHED.items():
        scored = code_sections.short_rows(data, metric, stored, (16,))
        known = {row[0]: float(row[1].split()[0]) for row in scored if row[1] != NOT_RUN}
        own = {name: known[key] for name, key in ((ORDERED, "the paper's, ordered"), (DEFAULT, "SCL, our code"))}
        others = {
            name.replace(", ", " with "): value
            for name, value in known.items()
            if name.startswith("SCL") and name != "SCL, our code"
        }
        unordered = code_sections.curve(
            code_sections.results_of(data, "paper-unordered", 0.3, stored), "projector random features", metric, (16,)
        )[0]
        if unordered != NOT_RUN:
            others["the unordered form with random features"] = float(unordered.split()[0])
        found[title] = own, others
    return found


def of_graphs(stored: Stored) -> dict[tuple[str, float], tuple[dict[str, float | None], Values]]:
    """Return accuracies of our forms (None: collapsed) and of the rivals, by graph and share of the labels."""
    cells = {}
    for graph, title in SETS.items():
        result = stored.read(nodes.NAME.format(graph=graph, seed=0))
        for share in (1.0, 0.01) if result is not None else ():
            found = {row["method"]: row["accuracy"] for row in result["rows"] if row["share"] == share}
            rivals = {name: 100 * found[name] for name in (*RIVALS.values(), CODES["features"]) if name in found}
            cells[title, share] = {form: found[CODES[name]] for form, name in GRAPH_FORMS.items()}, rivals
    return cells


def graphs(stored: Stored) -> list[str]:
    """Table 6, with all labels and with 1 % of them: the distance to the strongest rival, and how many are behind."""
    rows = []
    for (title, share), (own, rivals) in of_graphs(stored).items():
        best = max(rivals, key=lambda name: rivals[name])
        cells = [against(value, list(rivals.values())) for value in own.values()]
        rows.append([f"{title}, {share:.0%}", f"{best} {rivals[best]:.1f}", *cells])
    if not rows:
        return []
    text = """\
Nodes of graphs (table 6), linear probes of the encoder: percentage points above the strongest of the paper's rivals and
raw features, and in brackets how many of them the form is ahead of:"""
    return [text, table(("graph, share of the labels", "strongest", ORDERED, UNORDERED, DEFAULT), rows)]


def against(accuracy: float | None, rivals: Sequence[float]) -> str:
    """The distance of a code to the strongest rival, and the number of rivals behind it."""
    if accuracy is None:
        return "collapsed"
    ahead = sum(100 * accuracy - rival >= POINTS for rival in rivals)
    return f"{100 * accuracy - max(rivals):+.1f} ({ahead} of {len(rivals)})"


def transfer(stored: Stored) -> list[str]:
    """Table 5: points of average precision of boxes."""
    found = {
        method: 100 * result.get("pycocotools", result)["box"]["AP"]
        for method in TITLES
        if (result := stored.read(detection.NAME.format(method=method, seed=0))) is not None
    }
    forms = [method for method in ("unordered", "scl") if method in found]
    others = {TITLES[name]: found[name] for name in ("random", "supervised", "barlow-twins") if name in found}
    if not forms or not others:
        return []
    own = {TITLES[method]: found[method] for method in forms}
    words: Sequence[str] = [in_words(form, value, others, POINTS) for form, value in own.items()]
    return [
        "Detection on the generated set (table 5), points of AP of boxes, one seed:",
        "\n".join(words),
        table(("against", *own), differences(own, others, 1)),
    ]
