"""Sections of docs/paper.md on tables 5 to 8, the figures, the test cost, and the hours at the paper's scale."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from benchmarks.common.pages import NOT_RUN, figure, table
from benchmarks.common.plan import Stored
from benchmarks.graphs.jobs import SETS
from benchmarks.paper import cost, detection, gaussian, nodes, pictures, published, small_k
from benchmarks.paper.probes import every, stored_result
from benchmarks.vision import jobs as vision
from eigenmap.reproduce.table_1 import TABLE_1 as METHODS_OF_TABLE_1
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS
from eigenmap.reproduce.table_6 import FITTINGS, RIVALS, SHARES
from eigenmap.reproduce.tables_7_8 import LENGTHS

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

TABLES_7_8 = """\
## Tables 7 and 8: short codes, and SCL with PCA

Paper: mAP with ImageNet models on NUS-WIDE and COCO. Ours, from the [vision study](benchmarks.md): mAP over what was
found in the top 5,000 (COCO at 96 pixels) or 1,000. A network trained on the training images of a set searches that
set. Figures are mean ± sample standard deviation over the seeds. *our code* is the library's code of SCL's network."""

RETRIEVAL = """\
## Retrieval by code length

The paper shows only curves: codes up to 16 times shorter than those of SCL or of the form without stop-gradient. Ours:
CIFAR-10, COCO at 96 pixels and Tiny-ImageNet-100; raw projector outputs, prefixes of the ordered form, ten draws of
random features of the others; mAP over found as above, seed 0."""

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

SEARCHED = {
    "CIFAR-10": ("cifar10", "map_over_found@1000"),
    "COCO 96": ("coco", "map_over_found@5000"),
    "Tiny-ImageNet-100": ("tiny", "map_over_found@1000"),
}


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


def results_of(data: str, method: str, rate: float, stored: Stored) -> list[dict[str, Any]]:
    """Finished runs of the vision study that are 50 epochs long, one per seed."""
    found = [stored.read(vision.Job(data, method, rate, 50, seed).name) for seed in (0, 1, 2)]
    return [result for result in found if result is not None and "retrieval" in result]


def curve(results: Sequence[dict[str, Any]], code: str, metric: str, dims: Sequence[int]) -> list[str]:
    """One cell per length: mean and spread over the runs."""
    cells = []
    for dim in dims:
        values = [
            row[metric]
            for result in results
            for row in result["retrieval"].get(code, [])
            if row["dim"] == dim and metric in row
        ]
        cells.append(figure(values) if values else NOT_RUN)
    return cells


def short_rows(data: str, metric: str, stored: Stored, dims: Sequence[int]) -> list[list[str]]:
    """Codes of the paper's ordered form and of SCL on one set."""
    ordered, scl = results_of(data, "paper", 0.6, stored), results_of(data, "scl", 0.75, stored)
    source = f"{scl[0]['chosen_source']} aligned" if scl and "chosen_source" in scl[0] else "projector aligned"
    return [
        ["the paper's, ordered", *curve(ordered, "projector own order", metric, dims)],
        ["SCL + PCA", *curve(scl, "projector PCA uncentred", metric, dims)],
        ["SCL + centred PCA of the encoder", *curve(scl, "encoder PCA centred", metric, dims)],
        ["SCL, random features", *curve(scl, "projector random features", metric, dims)],
        ["SCL, our code", *curve(scl, source, metric, dims)],
    ]


def tables_7_8(stored: Stored) -> str:
    head = ("code", *map(str, LENGTHS))
    parts = [TABLES_7_8]
    for name, rows in published.SHORT_CODES.items():
        parts += [f"Paper, {name}:", table(head, [[code, *values] for code, values in rows.items()])]
    for title in ("COCO 96", "Tiny-ImageNet-100"):
        data, metric = SEARCHED[title]
        parts += [f"Ours, {title}:", table(head, short_rows(data, metric, stored, LENGTHS))]
    return "\n\n".join(parts)


def retrieval(stored: Stored) -> str:
    dims = (4, 8, 16, 32, 64, 256, 2048)
    parts = [RETRIEVAL]
    for title, (data, metric) in SEARCHED.items():
        rows = [
            [
                "the paper's, ordered",
                *curve(results_of(data, "paper", 0.6, stored)[:1], "projector own order", metric, dims),
            ],
            [
                "the same without stop-gradient",
                *curve(results_of(data, "paper-unordered", 0.3, stored)[:1], "projector random features", metric, dims),
            ],
            ["SCL", *curve(results_of(data, "scl", 0.75, stored)[:1], "projector random features", metric, dims)],
        ]
        parts += [f"{title}:", table(("code", *map(str, dims)), rows)]
    few = stored.read(small_k.NAME.format(seed=0))
    if few is None:
        parts.append("The variant with 128 features and 8,192 hidden units is not run yet.")
    else:
        lengths = [int(row["dim"]) for row in max(few["retrieval"].values(), key=len)]
        rows = [
            [name, *([f"{row['map_over_found@1000']:.3f}" for row in scored] or ["collapsed"] * len(lengths))]
            for name, scored in few["retrieval"].items()
        ]
        parts += ["128 features, 8,192 hidden units, CIFAR-10:", table(("code", *map(str, lengths)), rows)]
    return "\n\n".join(parts)


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
functions of `NeuralEigenmap`. The columns have the alignment |<psi_j, phi_j>| with the true functions on [-2, 2] (1:
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
    """List items that were not run, or not completely."""
    probes = [(item, stored_result(job, stored) is not None) for job, item in every().items()]
    left = {
        item: sum(not done for name, done in probes if name == item) for item in dict.fromkeys(n for n, _ in probes)
    }
    lines = [f"{item}: {count} runs" for item, count in left.items() if count]
    absent = [method for method in TITLES if not stored.has(detection.NAME.format(method=method, seed=0))]
    lines += [f"table-5: {len(absent)} runs"] if absent else []
    graphs = [graph for graph in SETS if not stored.has(nodes.NAME.format(graph=graph, seed=0))]
    lines += [f"table-6 by its command: {len(graphs)} graphs"] if graphs else []
    single = {
        "figure-retrieval with few features": small_k.NAME.format(seed=0),
        "test-cost": cost.NAME,
        "figure-grid, figure-excite and figure-optimise": pictures.NAME,
    }
    return lines + [item for item, name in single.items() if not stored.has(name)]
