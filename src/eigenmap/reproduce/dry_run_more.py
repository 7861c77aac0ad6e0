"""The cost of fine-tuning detectors and of training on graphs, without running them: memory, steps and hours."""

from __future__ import annotations

import time
from dataclasses import replace

import torch
from torch import Tensor

from eigenmap.data.graphs.graph import Graph
from eigenmap.detection.mask_rcnn import MaskRCNN, Target
from eigenmap.fitting.graph import GraphTask
from eigenmap.fitting.options import RunOptions
from eigenmap.networks import ResNet, build_encoder
from eigenmap.recipes.graph import USUAL_BLOCKS, WIDE, GraphRecipe
from eigenmap.reproduce.dry_run import GIB, DryRow, kept_bytes
from eigenmap.reproduce.methods import Scale
from eigenmap.reproduce.sets import CLASSES
from eigenmap.reproduce.table_5 import TITLES, TRANSFERS, transfer_recipe
from eigenmap.reproduce.table_6 import recipe_of_graph
from eigenmap.training import measure_step, start
from eigenmap.training.config import Accelerator

COCO_SHAPE, COCO_CLASSES = 4 / 3, 80
OBJECTS = 7
"""Instances per image of COCO, about."""
GRAPH_METHODS = ("unordered", "ordered", "default")


def detection_row(scale: Scale, devices: int, device: Accelerator = "auto", seconds: float = 20.0) -> DryRow:
    """Return the fine-tuning of all detectors, from steps on one random picture, scaled to those of a device.

    A CPU measures the paper's detector on 1/64 of the pixels and of the regions, to which time and memory are
    proportional.
    """
    transfer = TRANSFERS[scale]
    place = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    encoder = build_encoder(transfer_recipe("scl", scale).encoder, 3, 224, "imagenet")
    assert isinstance(encoder, ResNet)
    classes = COCO_CLASSES if scale == "paper" else transfer.classes or CLASSES
    part = 8 if scale == "paper" and place.type == "cpu" else 1
    settings = replace(transfer.settings, roi_batch=transfer.settings.roi_batch // part**2)
    detector = MaskRCNN(encoder, classes, settings).to(place).train()
    side = (transfer.sides[-1] if transfer.sides else transfer.generated[2]) // part
    size = (side, round(side * COCO_SHAPE)) if scale == "paper" else (side, side)
    picture, target = torch.randn(1, 3, *size, device=place), _objects(size, classes, place)
    optimizer = torch.optim.SGD(detector.parameters(), lr=0.0)
    half = transfer.precision == "16-mixed" and place.type == "cuda"

    def loss() -> Tensor:
        with torch.autocast(place.type, torch.float16, enabled=half):
            total = sum(detector(picture, [size], [target]).values())
        assert isinstance(total, Tensor)
        return total

    kept = kept_bytes(loss, detector) * part**2
    taken: list[float] = []
    while not taken or (sum(taken) < seconds and len(taken) < 20):
        began = time.perf_counter()
        optimizer.zero_grad()
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if place.type == "cuda":
            torch.cuda.synchronize(place)
        taken.append(time.perf_counter() - began)
    step = min(taken) * part**2
    share = -(-transfer.schedule.batch_size // devices)
    weights = sum(each.numel() * each.element_size() for each in detector.parameters())
    steps = len(TITLES) * transfer.schedule.steps
    return DryRow(
        run=f"{len(TITLES)} detectors, {transfer.schedule.steps:,} steps each",
        steps=steps,
        images_per_device=share,
        measured_images=1,
        step_seconds=step * share,
        memory_gib=(3 * weights + kept * share) / GIB,
        hours=steps * step * share / 3600,
    )


def _objects(size: tuple[int, int], classes: int, device: torch.device) -> Target:
    """Return random objects of about a third of the picture's side."""
    height, width = size
    corner = torch.rand(OBJECTS, 2) * torch.tensor([width, height]) * 0.6
    boxes = torch.cat([corner, corner + torch.tensor([width, height]) / 3], dim=1)
    masks = torch.zeros(OBJECTS, height, width, dtype=torch.bool)
    for mask, (x1, y1, x2, y2) in zip(masks, boxes.long().tolist(), strict=True):
        mask[y1:y2, x1:x2] = True
    return Target(boxes.to(device), torch.randint(classes, (OBJECTS,)).to(device), masks.to(device))


def graph_rows(scale: Scale, graph: Graph, device: Accelerator = "auto", seconds: float = 20.0) -> list[DryRow]:
    """Return the runs that learn codes of a graph's nodes; probes and rivals are not included."""
    return [_graph_row(name, recipe_of_graph(name, scale), graph, device, seconds) for name in GRAPH_METHODS]


def _graph_row(name: str, recipe: GraphRecipe, graph: Graph, device: Accelerator, seconds: float) -> DryRow:
    blocks = USUAL_BLOCKS if recipe.blocks is None else recipe.blocks
    chosen = recipe.but(width=recipe.width or WIDE, blocks=blocks, feature_dropout=recipe.feature_dropout or 0.0)
    config = RunOptions(device=device).config(chosen, chosen.steps)
    fabric = start(config)
    walk = graph.walk()
    about = {"nodes": len(graph), "edges": walk.n_entries // 2}
    problem = GraphTask(chosen, walk, graph.x, words=False, about=about, digest="").problem(fabric, config)
    assert problem.relation is not None
    step = measure_step(
        problem.network, problem.relation, problem.objective, config, fabric, steps=20, warmup=1, at_most=seconds
    )
    batch = problem.relation.batch(0)
    network, objective = problem.network.to(fabric.device).train(), problem.objective.to(fabric.device)

    def loss() -> Tensor:
        _, psi = network(torch.cat([batch.x, batch.x_plus]))
        value: Tensor = objective(psi[: len(batch.x)], psi[len(batch.x) :], batch.kernel)
        return value

    weights = sum(each.numel() * each.element_size() for each in network.parameters())
    held = sum(each.numel() * each.element_size() for each in network.buffers())
    return DryRow(
        run=f"{name}: {chosen.objective}, k {chosen.n_components:,}, batch {chosen.batch_size:,}",
        steps=chosen.steps,
        images_per_device=len(batch.x),
        measured_images=len(batch.x),
        step_seconds=step,
        memory_gib=(3 * weights + held + kept_bytes(loss, network)) / GIB,
        hours=chosen.steps * step / 3600,
    )
