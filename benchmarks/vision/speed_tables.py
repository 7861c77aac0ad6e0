"""Section of docs/benchmarks.md on speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.common.pages import NOT_RUN, made_by, table

PARTS = ("views alone", "objective alone", "clipping and optimizer alone")
GOAL = (
    "Images per second of the full step, and as a share of the limit: the network's forward and backward pass alone, "
    "on resident tensors, in the same mode. Goal: 90 %."
)
LIMIT = "the throughput of forward and backward alone"


def speed(results: Mapping[str, dict[str, Any]]) -> Iterator[str]:
    """Yield tables of all speed results, the known settings first, each with what was not run."""
    found = {name: result for name, result in results.items() if name.startswith("speed")}
    yield "## Speed"
    yield GOAL
    for name, result in found.items():
        yield from _steps(name, result)
    if not any(result["settings"]["size"] == 224 for result in found.values()):
        yield f"ResNet-50 / 224 pixels, k = 8,192: {NOT_RUN}."
    yield "### Objectives alone, batch 2,048"
    yield (
        "Time for value and gradient from existing codes, float32. The paper's objective, written out, forms two k x k "
        "products with their gradients. Ours forms one block of columns at a time."
    )
    timed = [(result, row) for result in found.values() for row in result.get("objectives", [])]
    rows = [
        [f"{row['objective']}, k = {row['k']:,}", f"{row['ms']:.2f}", _or_not_run(row["peak_mb"], ".0f")]
        for _, row in timed
    ] or [[f"k = {k:,}", NOT_RUN, NOT_RUN] for k in (2048, 4096, 8192)]
    yield table(["objective", "ms", "peak MB"], rows)
    yield made_by(list({id(result): result for result, _ in timed}.values()))


def in_short(results: Mapping[str, dict[str, Any]]) -> str:
    """Return the lines of docs/results.md on speed, empty if nothing was measured."""
    said, large = [], []
    for result in (result for name, result in results.items() if name.startswith("speed")):
        setting, row = result["settings"], max(result["rows"], key=lambda row: float(row["share"]))
        share = f"{100 * row['share']:.0f} %"
        reached = f"It reaches {share}" if said else f"A full training step reaches {share} of {LIMIT}"
        said.append(
            f"{reached} with {setting['encoder']} at {setting['size']} pixels "
            f"({row['images_per_second']:,.0f} images per second on one {result['device'].removeprefix('NVIDIA ')}, "
            f"`{setting['objective']}`, k = {setting['components']:,}, batch {setting['batch_size']:,})."
        )
        if more := result.get("accumulated"):
            large.append(f"{100 * more['share']:.0f} % at {setting['size']} pixels (batch {more['batch_size']:,})")
    chunks = [f"A batch that is computed in exact chunks reaches {' and '.join(large)}."] if large else []
    return " ".join([*said, *chunks])


def _steps(name: str, result: dict[str, Any]) -> Iterator[str]:
    setting = result["settings"]
    yield (
        f"### {setting['encoder']}, {setting['size']} pixels, k = {setting['components']:,}, batch "
        f"{setting['batch_size']:,}, {setting['objective']}"
    )
    rows = []
    for row in result["rows"]:
        parts = [f"{1000 * row['seconds'][part]:.1f}" for part in PARTS]
        rows.append(["compiled" if row["compiled"] else "eager", *_speeds(row), *parts])
    more = result.get("accumulated")
    label = f"batch {more['batch_size']:,} in {more['chunks']} exact chunks" if more else "batch 2,048 in exact chunks"
    rows.append([label, *(_speeds(more) if more else [NOT_RUN] * 3), *["–"] * 3])
    loader = result.get("loader", {})
    if "images_per_second" in loader:
        rows.append([f"views by {loader['workers']} CPU workers", f"{loader['images_per_second']:,.0f}", *["–"] * 5])
    else:
        why = f"{NOT_RUN}: {loader['not_run']}" if "not_run" in loader else NOT_RUN
        rows.append(["views by CPU workers", why, *["–"] * 5])
    head = ["", "images/s", "limit, images/s", "share", "views, ms", "objective, ms", "clipping and optimizer, ms"]
    yield table(head, rows)
    yield made_by([result])


def _speeds(row: Mapping[str, float]) -> list[str]:
    return [
        f"{row['images_per_second']:,.0f}",
        f"{row['limit_images_per_second']:,.0f}",
        f"{100 * row['share']:.0f} %",
    ]


def _or_not_run(value: float | None, form: str) -> str:
    return NOT_RUN if value is None else format(value, form)
