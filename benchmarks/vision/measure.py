"""Measurements of a trained network: retrieval by every kind of code at every length, kNN and linear accuracy.

Codes are made from plain images. PCA, alignment and probes are fitted on training images, and all choices are made on
held-out ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmarks.common.timing import wait
from benchmarks.vision import sets
from benchmarks.vision.sets import Split
from eigenmap.evaluation.classes import fit_standardised_sgd
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.evaluation.probe import fit_ridge
from eigenmap.evaluation.retrieval import PCA, ScoreRow, lengths, pca, project, random_features, retrieval
from eigenmap.fitting.align import Evidence, align_outputs
from eigenmap.fitting.problem import Problem
from eigenmap.model import CodeSource
from eigenmap.relations.images import ImagePairs
from eigenmap.spectrum import EXPONENTS, Alignment, align, captured, neighbour_agreement, unit_rms_rows

SOURCES: tuple[CodeSource, ...] = ("encoder", "projector")
Outputs = dict[CodeSource, Tensor]
Probe = Literal["ridge", "sgd"]


@dataclass
class Clock:
    """Seconds spent on each part of the measurement."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        wait("cuda" if torch.cuda.is_available() else "cpu")
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began


class Trained:
    """The problem of a job after training: its network, and its evidence from pairs."""

    def __init__(self, problem: Problem, n_components: int) -> None:
        assert isinstance(problem.relation, ImagePairs)
        self.network, self.pairs, self.n_components = problem.network, problem.relation, n_components
        self._problem = problem

    @cached_property
    def evidence(self) -> Evidence:
        """Moments of training pairs and of held-out pairs."""
        return self._problem.evidence(1.0)

    @torch.no_grad()
    def outputs(self, pixels: Tensor) -> Outputs:
        """Both outputs of the network for plain images."""
        views, device = self.pairs.views, self.pairs.device
        parts = [self.network(views.plain(chunk.to(device))) for chunk in torch.split(pixels, 1000)]
        encoder, projector = (torch.cat(side).float() for side in zip(*parts, strict=True))
        return {"encoder": encoder, "projector": projector}


@dataclass(frozen=True)
class Target:
    """A set to measure on: its training images are the gallery, its first `queries` test images the queries."""

    name: str
    train: Split
    test: Split
    queries: int
    top: tuple[int, ...]

    @property
    def labels(self) -> tuple[Tensor, Tensor]:
        """Labels of the queries and of the gallery."""
        return self.test.labels[: self.queries], self.train.labels


def target(data: Path, name: str) -> Target:
    """The set `name` from the folder of all sets."""
    train, test = sets.load(data, name)
    return Target(name, train, test, sets.QUERIES.get(name, len(test)), sets.SETS[name].top)


@dataclass(frozen=True)
class Bases:
    """Maps from outputs to codes, fitted on the training set."""

    principal: Mapping[tuple[CodeSource, bool], PCA]
    aligned: Mapping[CodeSource, Alignment]

    def codes(self, outputs: Outputs) -> Iterator[tuple[str, Tensor]]:
        """Each kind of code by its name."""
        for (source, centred), basis in self.principal.items():
            yield f"{source} PCA {'centred' if centred else 'uncentred'}", project(outputs[source], basis)
        yield "projector own order", outputs["projector"]
        for source, alignment in self.aligned.items():
            yield f"{source} aligned", alignment.apply(unit_rms_rows(outputs[source]), unit=False)


@torch.no_grad()
def fit_bases(trained: Trained, gallery: Outputs) -> Bases:
    principal = {
        (source, centred): pca(gallery[source], centred=centred) for source in SOURCES for centred in (True, False)
    }
    aligned = align_outputs(trained.evidence, SOURCES, trained.n_components)
    device = trained.pairs.device
    return Bases(principal, {source: alignment.to(device) for source, alignment in aligned.items()})


@torch.no_grad()
def ordered_tables(bases: Bases, gallery: Outputs, query: Outputs, on: Target) -> dict[str, list[ScoreRow]]:
    """Retrieval by every ordered code at every length."""
    return {
        name: retrieval(of_query, of_gallery, *on.labels, lengths(of_query.shape[1]), on.top, tf32=True)
        for (name, of_query), (_, of_gallery) in zip(bases.codes(query), bases.codes(gallery), strict=True)
    }


def random_tables(gallery: Outputs, query: Outputs, on: Target) -> dict[str, list[ScoreRow]]:
    """Retrieval by randomly ordered features, ten draws, at all but the smallest number of results."""
    return {
        f"{source} random features": random_features(
            query[source], gallery[source], *on.labels, lengths(gallery[source].shape[1]), on.top[1:]
        )
        for source in SOURCES
    }


def measure(
    trained: Trained,
    on: Target,
    held: Tensor,
    *,
    probes: tuple[Probe, ...] = ("ridge",),
    transfer: Target | None = None,
    study: bool = False,
    codes: Path | None = None,
) -> dict[str, Any]:
    """Measure a network on its training set, of which the images `held` were held out.

    Retrieval is also measured on `transfer`, without fine-tuning: PCA and alignment stay those of the first set.
    `study` adds the codes of fixed ridges and exponents. `codes` is a file to which the chosen codes are written.
    """
    clock = Clock()
    with clock.part("outputs"):
        gallery, query = trained.outputs(on.train.images), trained.outputs(on.test.images)
    result: dict[str, Any] = {}
    if not on.train.multi_label:
        with clock.part("accuracy"):
            result |= accuracy(gallery["encoder"], on.train.labels, query["encoder"], on.test.labels, held, probes)
    with clock.part("alignment and PCA"):
        bases = fit_bases(trained, gallery)
    result["chosen_source"] = max(bases.aligned, key=lambda source: bases.aligned[source].quality)
    result["alignment"] = {source: described(alignment) for source, alignment in bases.aligned.items()}
    if not on.train.multi_label:
        codes_of = bases.aligned[result["chosen_source"]]
        tested, known = (
            codes_of.apply(unit_rms_rows(x[result["chosen_source"]]), unit=False) for x in (query, gallery)
        )
        result["knn_code_test"] = knn_accuracy(tested, on.test.labels, known, on.train.labels)
    query = {source: rows[: on.queries] for source, rows in query.items()}
    if codes is not None:
        save_codes(
            codes, bases.aligned[result["chosen_source"]], *(x[result["chosen_source"]] for x in (gallery, query)), on
        )
    with clock.part("retrieval"):
        result["retrieval"] = ordered_tables(bases, gallery, query, on)
    with clock.part("random features"):
        result["retrieval"] |= random_tables(gallery, query, on)
    if study:
        with clock.part("study"):
            result["study"] = fixed_settings(trained, gallery, query, on)
            result["agreement"] = agreements(trained, bases)
    if transfer is not None:
        with clock.part("transfer"):
            gallery, query = trained.outputs(transfer.train.images), trained.outputs(transfer.test.images)
            ordered = ordered_tables(bases, gallery, query, transfer)
            result["transfer"] = {transfer.name: ordered | random_tables(gallery, query, transfer)}
    return result | {"seconds_of_parts": clock.seconds}


@torch.no_grad()
def save_codes(path: Path, alignment: Alignment, gallery: Tensor, query: Tensor, on: Target, dim: int = 256) -> None:
    """Write the first features of all codes, for the benchmarks of search, which do not train."""
    arrays = {
        name: alignment.apply(unit_rms_rows(rows), dim=min(dim, alignment.n_components), unit=False)
        .half()
        .cpu()
        .numpy()
        for name, rows in (("gallery", gallery), ("queries", query))
    }
    query_labels, gallery_labels = (labels.numpy() for labels in on.labels)
    np.savez(
        path,
        **arrays,
        gallery_labels=gallery_labels,
        query_labels=query_labels,
        eigenvalues=alignment.eigenvalues[:dim].cpu().numpy(),
        t=alignment.t,
    )


def measure_accuracy(trained: Trained, on: Target, held: Tensor) -> dict[str, float]:
    """Measure only kNN and linear accuracy."""
    features, tested = (trained.outputs(part.images)["encoder"] for part in (on.train, on.test))
    return accuracy(features, on.train.labels, tested, on.test.labels, held)


def accuracy(
    features: Tensor, y: Tensor, tested: Tensor, y_test: Tensor, held: Tensor, probes: tuple[Probe, ...] = ("ridge",)
) -> dict[str, float]:
    """Measure kNN accuracy of held-out images (for choosing) and of test images, and linear probes."""
    is_held = torch.zeros(len(y), dtype=torch.bool)
    is_held[held] = True
    on_device = is_held.to(features.device)
    result = {
        "knn_held_out": knn_accuracy(features[on_device], y[is_held], features[~on_device], y[~is_held]),
        "knn_test": knn_accuracy(tested, y_test, features, y),
    }
    if "ridge" in probes:
        result["linear_ridge_test"] = fit_ridge(features, y).accuracy(tested, y_test)
    if "sgd" in probes:
        result["linear_sgd_test"] = fit_standardised_sgd(features, y).accuracy(tested, y_test)
    return result


def described(alignment: Alignment) -> dict[str, Any]:
    """Return the choices made on held-out pairs in an alignment."""
    return {
        "t": alignment.t,
        "ridge": alignment.ridge,
        "own_order": alignment.own_order,
        "quality": alignment.quality,
        "eigenvalues": alignment.eigenvalues[:64].tolist(),
        "recall": alignment.recall,
        "agreement": alignment.agreement,
    }


@torch.no_grad()
def agreements(trained: Trained, bases: Bases) -> dict[str, dict[str, float]]:
    """Agreement of two views about their neighbours, by exponent and by number of neighbours.

    The choice of t is based on it; compare with the retrieval of `fixed_settings`.
    """
    found: dict[str, dict[str, float]] = {}
    for source, alignment in bases.aligned.items():
        on_cpu = alignment.to("cpu")
        for t in EXPONENTS:
            views = [on_cpu.apply(psi.cpu(), t=t, unit=False) for psi in trained.evidence.of(source).codes]
            for top in (10, 20, 40, 100, 200):
                values = [
                    neighbour_agreement(*(normalize(view[:, :d], dim=1) for view in views), top)
                    for d in lengths(on_cpu.n_components)
                ]
                found.setdefault(f"{source} top {top}", {})[f"{t:g}"] = sum(values) / len(values)
    return found


@torch.no_grad()
def fixed_settings(trained: Trained, gallery: Outputs, query: Outputs, on: Target) -> dict[str, list[float]]:
    """Score codes with fixed ridges and exponents, for comparison with those chosen on held-out pairs.

    There are 60 codes at every length, which take most of the time of a measurement, so this is optional.
    """
    top, found = on.top[1], {}
    for source in SOURCES:
        fit, held_out, _, _ = trained.evidence.of(source)
        of_query, of_gallery = unit_rms_rows(query[source]), unit_rms_rows(gallery[source])
        for ridge in (0.0, 0.01, 0.1, 1.0, 10.0):
            alignment = align(fit, held_out, ridge)
            alignment = replace(alignment, mean=of_gallery.double().mean(0))
            share = captured(alignment, held_out)
            for t in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0):
                first, second = (alignment.apply(psi, t=t, unit=False) for psi in (of_query, of_gallery))
                rows = retrieval(first, second, *on.labels, lengths(first.shape[1]), (top,), tf32=True)
                found[f"{source} ridge {ridge:g} t {t:g} captured {share:.3f}"] = [
                    row[f"map_over_found@{top}"] for row in rows
                ]
    return found
