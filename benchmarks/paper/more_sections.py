"""Sections of docs/paper.md on tables 5 and 6, the figures, the test cost, and the hours at the paper's scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.common.pages import NOT_RUN, figure, table
from benchmarks.common.plan import Stored
from benchmarks.graphs.jobs import SETS
from benchmarks.paper import cost, detection, gaussian, nodes, pictures, published, small_k
from benchmarks.paper.probes import every, stored_result
from eigenmap.reproduce.table_1 import TABLE_1 as METHODS_OF_TABLE_1
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS
from eigenmap.reproduce.table_6 import FITTINGS, RIVALS, SHARES

TABLE_5 = """\
## Table 5: detection and segmentation

Paper: Mask R-CNN C4 on COCO, pre-trained for 200 epochs on ImageNet; the text says the 1x schedule, the authors'
command runs 2x. Ours: the same detector in plain torch, ResNet-18 pre-trained on Tiny-ImageNet-100 for {epochs} epochs;
{steps:,} steps on {train:,} generated pictures, onto which images of {classes} classes are pasted, scored on {test:,}
others. Average precision in percent, boxes then masks; one seed."""

TABLE_6 = """\
## Table 6: nodes of a graph

Paper: OGBN-Products, linear probe of ours, other classifiers for the rest. The table has the unordered form; the
authors' log has the ordered one too. Our five graphs with the rivals are in [graph benchmarks](graph-benchmarks.md)."""

TABLE_6_OURS = """\
`eigenmap reproduce table-6` on our graphs: percent of the test nodes, mean ± standard deviation of 10 splits or draws
of the labels. Codes are classified by the paper's probe. The paper's forms have 2,048 features, blocks of 2,048 nodes
and 1,000 steps here."""

RIVALS_RAN = """\
MLPs and GCN have three layers of width {width}, BatchNorm and dropout {dropout:g}, and train for {epochs} epochs;
their settings were not searched. OGB's examples, which the paper uses, have no BatchNorm, their MLP has no dropout, and
the paper's MLPs have width {paper_width}; the command does the same at the paper's scale. A deviation of 0.0 with all
labels is that of a fixed split."""
NO_RIVALS = "The rivals of the paper's table did not run with these splits."

COST = """\
## Test cost

The paper gives 0.3818 s of GCN and 0.0013 s of its own method for one test node. According to the authors' log, the
first is the time for the whole test set, for which its own method took 3.39 s. Here both are measured on both, on a
generated graph of that size."""

HOURS = """\
## The paper's scale

Not run: it needs ImageNet. `eigenmap reproduce table-1 --scale paper --data IMAGENET/ --devices 8 --dry-run` checks the
data and measures memory, steps and hours there. From the stored speed of [one H200](benchmarks.md): {rate:,.0f} images
per second (two views each, ResNet-50 at 224 pixels, {components:,} features, batch {batch:,}, compiled).

- one run: 100 epochs x 1,281,167 images / (8 x {rate:,.0f} images/s) = {seconds:,.0f} s = {hours:.2f} hours
- table 1: {runs} runs x {hours:.2f} hours = {total:.1f} hours of 8 H200, with perfect scaling, without reading,
  evaluation, and the second network of MoCo v2 and BYOL"""

ELSEWHERE = [
    "table-1 on Tiny-ImageNet-100",
    "table-6 on a generated graph of the size of OGBN-Products",
    "every item at the paper's scale, for lack of ImageNet, COCO, NUS-WIDE and OGBN-Products",
]
"""What has no prepared job."""


def table_5(stored: Stored) -> str:
    rows = []
    for method, title in TITLES.items():
        result = stored.read(detection.NAME.format(method=method, seed=0))
        paper = " / ".join(published.DETECTION.get(method, ("",)))
        ours = NOT_RUN if result is None else _precision(result)
        rows.append([title, paper, ours])
    head = ("initial weights", "paper, COCO: AP50 / AP / AP75, masks", "ours, generated set")
    small = TRANSFERS["small"]
    train, test, _ = small.generated
    about = {"epochs": small.epochs, "steps": small.schedule.steps, "classes": small.classes}
    return f"{TABLE_5.format(**about, train=train, test=test)}\n\n{table(head, rows)}"


def _precision(result: dict[str, Any]) -> str:
    best = result.get("pycocotools", result)
    return " / ".join(f"{100 * best[what][name]:.1f}" for what in ("box", "mask") for name in ("AP50", "AP", "AP75"))


def table_6(stored: Stored) -> str:
    head = ("method", "100 %", "10 %", "1 %")
    results = {title: stored.read(nodes.NAME.format(graph=graph, seed=0)) for graph, title in SETS.items()}
    ran = {title: result["rows"] for title, result in results.items() if result is not None}
    text = f"{TABLE_6}\n\n{table(head, published.PRODUCTS)}\n\n{TABLE_6_OURS}\n\n"
    if not ran:
        return text + f"Not run yet on {', '.join(SETS.values())}."
    methods = list(dict.fromkeys(row["method"] for rows in ran.values() for row in rows))
    how = FITTINGS["small"].gcn
    settings = {"width": how.width, "dropout": how.dropout, "epochs": how.epochs}
    rivals = textwrap.fill(RIVALS_RAN.format(**settings, paper_width=FITTINGS["paper"].mlp.width), 120)
    text += rivals if set(RIVALS.values()) & set(methods) else NO_RIVALS
    for share in SHARES:
        cells = [[method, *(_of_share(rows, method, share) for rows in ran.values())] for method in methods]
        text += f"\n\nWith {share:.0%} of the labels:\n\n{table(('method', *ran), cells)}"
    return text


def _of_share(rows: Sequence[dict[str, Any]], method: str, share: float) -> str:
    """The accuracy of a method with a share of the labels, and its spread."""
    found = [row for row in rows if row["method"] == method and row["share"] == share]
    if not found:
        return NOT_RUN
    (row,) = found
    return accuracy(row) if row["accuracy"] is None else f"{accuracy(row)} ± {100 * row['spread']:.1f}"


def accuracy(row: dict[str, Any]) -> str:
    """The accuracy of a row in percent."""
    return "collapsed" if row["accuracy"] is None else f"{100 * row['accuracy']:.1f}"


def test_cost(stored: Stored) -> str:
    result = stored.read(cost.NAME)
    if result is None:
        return f"{COST}\n\nNot run yet; [graph benchmarks](graph-benchmarks.md) has the cost on our graphs."
    rows = [
        [
            row["method"],
            f"{row['whole_set_s']:.4f} s",
            f"{1e6 * row['per_node_s']:.3f} us",
            f"{1e3 * row['one_node_s']:.3f} ms",
        ]
        for row in result["rows"]
    ]
    head = (f"{result['device']}", "all nodes", "per node of all", "one node by itself")
    return f"{COST}\n\n{table(head, rows)}"


PICTURES = """\
## Figures: features, and results by length

The ordered form, trained for 50 epochs on CIFAR-10 (`figure-grid`, `figure-excite`, `figure-optimise`; one seed).
Queries are the first test images of four classes (0 airplane, 3 cat, 6 frog, 9 truck), results come from the training
images by the first 4 to 64 features; dashed frames mark another class.

![Ten results of four queries by 4, 8, 16, 32 and 64 features](images/paper-grid.png)

The test images with the largest value of each of the first eight features:

![Ten test images per feature](images/paper-excite.png)

Pictures optimised from noise for the largest and the smallest value of each feature. At 32 pixels they show colours and
textures, not things:

![Optimised pictures of eight features, with the values they reach](images/paper-optimise.png)"""


def figures(stored: Stored) -> str:
    """The pictures, once they are drawn."""
    return PICTURES if stored.has(pictures.NAME) else f"{PICTURES.splitlines()[0]}\n\nNot run yet."


RBF = """\
## Figure: eigenfunctions of the Gaussian kernel

Paper: curves of three functions that lie close to the true ones, without numbers. Ours: raw outputs of a network of
width {width} trained on the paper's objective (alpha {alpha:g}, {steps} steps), and the first three of {functions}
functions of `NeuralEigenmap`. The columns have the alignment `|<psi_j, phi_j>|` with the true functions on [-2, 2] (1:
equal) and the largest inner product of two learned functions (0: orthogonal). The picture is on the page on
[eigenfunctions](eigenfunctions.md)."""


def gaussian_kernel(stored: Stored) -> str:
    results = gaussian.stored_results(stored)
    if not results:
        return f"{RBF.splitlines()[0]}\n\nNot run yet."
    rows = []
    for key, title in (("paper", "the paper's objective"), ("ours", "`NeuralEigenmap`")):
        of_function = [[result[key]["alignment"][j] for result in results] for j in range(gaussian.PAPER_FUNCTIONS)]
        largest = [result[key]["largest_off_diagonal"] for result in results]
        rows.append([title, *map(figure, of_function), figure(largest), str(len(results))])
    head = ("learned by", "1", "2", "3", "largest inner product", "seeds")
    settings = {name: results[0]["paper"][name] for name in ("alpha", "width", "steps")}
    return f"{RBF.format(**settings, functions=gaussian.FUNCTIONS)}\n\n{table(head, rows)}"


def hours(stored: Stored) -> str:
    """Estimate the hours of table 1 on eight GPUs from the stored speed of one."""
    speed = stored.read("speed-resnet50-224")
    assert speed is not None
    rate, settings = speed["rows"][0]["images_per_second"], speed["settings"]
    seconds = 100 * 1_281_167 / (8 * rate)
    runs = len(METHODS_OF_TABLE_1)
    return HOURS.format(
        rate=rate,
        components=settings["components"],
        batch=settings["batch_size"],
        seconds=seconds,
        hours=seconds / 3600,
        runs=runs,
        total=runs * seconds / 3600,
    )


def not_run(stored: Stored) -> list[str]:
    """List what was not run of each item."""
    probes = [(item, stored_result(job, stored) is not None) for job, item in every().items()]
    left = {
        item: sum(not done for name, done in probes if name == item) for item in dict.fromkeys(n for n, _ in probes)
    }
    lines = [f"{item}: {count} runs" for item, count in left.items() if count]
    absent = [title for method, title in TITLES.items() if not stored.has(detection.NAME.format(method=method, seed=0))]
    lines += [f"table-5: {'; '.join(absent)}"] if absent else []
    graphs = [title for graph, title in SETS.items() if not stored.has(nodes.NAME.format(graph=graph, seed=0))]
    lines += [f"table-6: {', '.join(graphs)}"] if graphs else []
    single = {
        "figure-retrieval with few features": small_k.NAME.format(seed=0),
        "test-cost": cost.NAME,
        "figure-grid, figure-excite and figure-optimise": pictures.NAME,
    }
    return lines + [item for item, name in single.items() if not stored.has(name)] + ELSEWHERE
