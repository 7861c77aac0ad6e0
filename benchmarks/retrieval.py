"""Retrieval at every code length, on a real data set: train one job, measure every code variant, write one JSON file.

    python benchmarks/retrieval.py run --data cifar10.npz --set cifar10 --method nested --rate 0.12 --epochs 50
    python benchmarks/retrieval.py sweep --data cifar10.npz --seconds 560 --side-by-side 3 --eager

The .npz file holds train_x, train_y, test_x, test_y (uint8 NHWC images). Training images: all but a tenth, held out
for alignment, for choosing the rate (k-nearest-neighbour accuracy there) and for the health check. Gallery: all
training images. Queries: the first 2,000 test images. Final epoch; nothing is chosen on the queries.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import harness
import plan
from eigenmap.evaluation.neighbours import knn_accuracy
from eigenmap.evaluation.probe import fit_ridge
from eigenmap.evaluation.retrieval import lengths, pca, project, random_features, retrieval
from eigenmap.fit import align_outputs, pair_moments
from eigenmap.networks import Network, build_encoder
from eigenmap.objectives import build
from eigenmap.relations.augmentation import TwoViews
from eigenmap.relations.images import ImagePairs, split_held_out
from eigenmap.spectrum import align, captured, unit_rows
from eigenmap.training import CollapseError, DivergedError, TrainingConfig, start, train
from jobs import METHODS, Job

QUERIES = 2_000
TOP = (100, 1000)
PROTOCOL = (
    "mAP and precision of the first 2,000 test images against all training images, cosine, final epoch; a tenth of the "
    "training images is not trained on (alignment, choice of the rate by kNN)"
)


def run(job: Job, data: Path, *, compiled: bool = True) -> dict[str, Any]:
    """Train a job and measure every code it can give."""
    with np.load(data) as arrays:
        images = {
            name: torch.from_numpy(arrays[f"{name}_x"]).permute(0, 3, 1, 2).contiguous() for name in ("train", "test")
        }
        labels = {name: torch.from_numpy(arrays[f"{name}_y"]).long() for name in ("train", "test")}
    recipe = job.recipe().but(compile=compiled)
    rows, held = split_held_out(len(images["train"]), fraction=0.1, seed=job.seed)
    steps = job.epochs * (len(rows) // job.batch_size)
    config = TrainingConfig(
        steps=steps,
        optimizer=recipe.optimizer,
        lr=recipe.lr,
        weight_decay=recipe.weight_decay,
        warmup_steps=round(recipe.warmup * steps),
        clip_norm=recipe.clip_norm,
        precision=recipe.precision,
        channels_last=recipe.channels_last,
        compile=recipe.compile,
        seed=job.seed,
        check_every=max(1, steps // 10),
    )
    fabric = start(config)
    size = images["train"].shape[-1]
    views = TwoViews(recipe.views, size)
    torch.manual_seed(job.seed)
    network = Network(build_encoder(recipe.encoder, image_size=size), job.n_components)
    pairs = ImagePairs(images["train"][rows], views, job.batch_size, job.seed, fabric.device)
    held_pairs = ImagePairs(images["train"][held], views, job.batch_size, job.seed + 1, fabric.device)
    result: dict[str, Any] = {
        "benchmark": "retrieval",
        "protocol": PROTOCOL,
        "job": asdict(job),
        "recipe": asdict(recipe),
        **harness.environment(),
    }
    objective = build(recipe.objective, **recipe.objective_options)
    check = lambda: held_pairs.pairs(torch.Generator().manual_seed(0), job.batch_size)  # noqa: E731
    try:
        trained = train(network, pairs, objective, config, held_out=check, fabric=fabric)
    except (CollapseError, DivergedError) as error:
        return {**result, "collapsed": str(error)}
    result["seconds_training"] = trained.seconds
    result["images_per_second"] = steps * job.batch_size / trained.seconds
    result["history"] = [record for record in trained.history if "effective_rank" in record]
    result["peak_gpu_gib"] = torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    began = time.perf_counter()
    result.update(measure(network, pairs, held_pairs, images, labels, held, job))
    result["seconds_measuring"] = time.perf_counter() - began
    return result


@torch.no_grad()
def measure(
    network: Network,
    pairs: ImagePairs,
    held_pairs: ImagePairs,
    images: dict[str, Tensor],
    labels: dict[str, Tensor],
    held: Tensor,
    job: Job,
) -> dict[str, Any]:
    """Retrieval of every code variant; kNN and linear accuracy of the encoder."""
    device = pairs.device
    outputs = {name: _outputs(network, pairs.views, pixels, device) for name, pixels in images.items()}
    y_train, y_test = labels["train"].to(device), labels["test"].to(device)
    queries, y_query = slice(QUERIES), y_test[:QUERIES]
    codes: dict[str, tuple[Tensor, Tensor]] = {}
    for source in ("encoder", "projector"):
        gallery, query = outputs["train"][source], outputs["test"][source][queries]
        for centred in (True, False):
            basis = pca(gallery, centred=centred)
            name = f"{source} PCA {'centred' if centred else 'uncentred'}"
            codes[name] = project(query, basis), project(gallery, basis)
    codes["projector own order"] = outputs["test"]["projector"][queries], outputs["train"]["projector"]
    aligned = align_outputs(network, pairs, held_pairs, ("encoder", "projector"), job.n_components, job.seed)
    for source, alignment in aligned.items():
        on_device = alignment.to(device)
        codes[f"{source} aligned"] = (
            on_device.apply(unit_rows(outputs["test"][source][queries]), unit=False),
            on_device.apply(unit_rows(outputs["train"][source]), unit=False),
        )
    best = max(aligned, key=lambda source: aligned[source].quality)
    tables = {
        name: retrieval(query, gallery, y_query, y_train, lengths(query.shape[1]), TOP, tf32=True)
        for name, (query, gallery) in codes.items()
    }
    fixed = study(network, pairs, held_pairs, outputs) if job.epochs == plan.SCREENING_EPOCHS else {}
    for source in ("encoder", "projector"):
        query, gallery = outputs["test"][source][queries], outputs["train"][source]
        tables[f"{source} random features"] = random_features(
            query, gallery, y_query, y_train, lengths(query.shape[1]), TOP[1:]
        )
    trained = torch.ones(len(y_train), dtype=torch.bool)
    trained[held] = False
    features = outputs["train"]["encoder"]
    held, trained = held.to(device), trained.to(device)
    probe = fit_ridge(features, y_train)
    return {
        "chosen_source": best,
        "alignment": {
            source: {
                "t": a.t,
                "ridge": a.ridge,
                "own_order": a.own_order,
                "quality": a.quality,
                "eigenvalues": a.eigenvalues[:64].tolist(),
                "recall": a.recall,
            }
            for source, a in aligned.items()
        },
        "knn_held_out": knn_accuracy(features[held], y_train[held], features[trained], y_train[trained]),
        "knn_test": knn_accuracy(outputs["test"]["encoder"], y_test, features, y_train),
        "linear_ridge_test": float((probe.predict(outputs["test"]["encoder"]) == y_test).float().mean()),
        "retrieval": tables,
        "study": {
            name: [
                row["map_over_found@1000"]
                for row in retrieval(query, gallery, y_query, y_train, lengths(query.shape[1]), TOP[1:], tf32=True)
            ]
            for name, (query, gallery) in fixed.items()
        },
    }


@torch.no_grad()
def study(
    network: Network, pairs: ImagePairs, held_pairs: ImagePairs, outputs: dict[str, dict[str, Tensor]]
) -> dict[str, tuple[Tensor, Tensor]]:
    """Codes under fixed ridges and exponents, beside those that held-out pairs choose."""
    fit, _ = pair_moments(network, pairs, 1, seed=2)
    held_out, _ = pair_moments(network, held_pairs, 1, seed=3)
    codes = {}
    for source in ("encoder", "projector"):
        query, gallery = unit_rows(outputs["test"][source][:QUERIES]), unit_rows(outputs["train"][source])
        for ridge in (0.0, 0.01, 0.1, 1.0, 10.0):
            alignment = align(fit[source], held_out[source], ridge)
            alignment = replace(alignment, mean=gallery.double().mean(0))
            share = captured(alignment, held_out[source])
            for t in (0.0, 1.0, 2.0, 4.0, 8.0, 16.0):
                name = f"{source} ridge {ridge:g} t {t:g} captured {share:.3f}"
                codes[name] = alignment.apply(query, t=t, unit=False), alignment.apply(gallery, t=t, unit=False)
    return codes


def _outputs(network: Network, views: TwoViews, pixels: Tensor, device: torch.device) -> dict[str, Tensor]:
    """Both outputs of the network for plain images."""
    parts = [network(views.plain(chunk.to(device))) for chunk in torch.split(pixels, 1000)]
    return {
        "encoder": torch.cat([features for features, _ in parts]).float(),
        "projector": torch.cat([psi for _, psi in parts]).float(),
    }


def sweep(data: Path, results: Path, seconds: float, side_by_side: int, stage: str, *, eager: bool) -> None:
    """Run missing jobs of the plan, several side by side, as long as they are likely to finish in time."""
    deadline = time.monotonic() + seconds
    running: dict[str, tuple[subprocess.Popen[bytes], Job]] = {}
    started: set[str] = set()
    while True:
        for name in [name for name, (process, _) in running.items() if process.poll() is not None]:
            process, job = running.pop(name)
            print(f"{'done' if process.returncode == 0 else 'FAILED'}  {name}", flush=True)
        left = deadline - time.monotonic()
        for job in plan.missing(results, stage):
            if len(running) >= side_by_side:
                break
            if job.name in started or plan.seconds(job) * side_by_side > left:
                continue
            started.add(job.name)
            log = (results / f"{job.name}.log").open("wb")
            command = [sys.executable, __file__, "run", "--data", str(data), "--results", str(results), *arguments(job)]
            command += ["--eager"] if eager else []
            running[job.name] = subprocess.Popen(command, stdout=log, stderr=log), job
            print(f"start {job.name}", flush=True)
        if not running:
            return
        if left < 0:
            for process, _ in running.values():
                process.kill()
            print("out of time:", ", ".join(running), flush=True)
            return
        time.sleep(0.5)


def arguments(job: Job) -> list[str]:
    """The command-line options that describe a job."""
    values = {"set": job.data, "method": job.method, "rate": job.rate, "epochs": job.epochs, "seed": job.seed}
    values |= {"components": job.n_components, "batch-size": job.batch_size}
    return [word for name, value in values.items() for word in (f"--{name}", str(value))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one, many = verbs.add_parser("run"), verbs.add_parser("sweep")
    for verb in (one, many):
        verb.add_argument("--data", type=Path, required=True, help=".npz with train_x, train_y, test_x, test_y")
        verb.add_argument("--results", type=Path, default=harness.RESULTS)
        verb.add_argument("--eager", action="store_true", help="do not compile the network")
    one.add_argument("--set", default="cifar10")
    one.add_argument("--method", choices=METHODS, required=True)
    one.add_argument("--rate", type=float, required=True)
    one.add_argument("--epochs", type=int, required=True)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--components", type=int, default=2048)
    one.add_argument("--batch-size", type=int, default=512)
    many.add_argument("--seconds", type=float, required=True)
    many.add_argument("--side-by-side", type=int, default=4)
    many.add_argument("--stage", default="all", help="which part of the plan")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    if given.verb == "sweep":
        sweep(given.data, given.results, given.seconds, given.side_by_side, given.stage, eager=given.eager)
        return
    job = Job(given.set, given.method, given.rate, given.epochs, given.seed, given.components, given.batch_size)
    result = run(job, given.data, compiled=not given.eager)
    harness.write(given.results / f"{job.name}.json", result)
    print(plan.summary(result))


if __name__ == "__main__":
    main()
