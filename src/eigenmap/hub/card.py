"""Model card: a page about the input, training, spectrum and limits of a model.

    text = model_card(description, eigenvalues, name="birds")

Everything on it comes from the model's description, so it is true of every copy. It has no results on labelled data:
add those by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eigenmap import __version__

LENGTHS = (8, 16, 32, 64, 128, 256, 512)
_INPUTS = {"images": "images", "nodes": "features of graph nodes", "vectors": "vectors"}

_USE = {
    "images": """model = em.Eigenmap.from_pretrained("{name}")
codes = model.encode("photo.jpg", dim=16)  # a path, a folder, a list of pictures, or an array""",
    "nodes": """model = em.Eigenmap.from_pretrained("{name}")
codes = model.encode(x, dim=16)  # one row of features per node""",
    "vectors": """model = em.Eigenmap.from_pretrained("{name}")
codes = model.encode(x, dim=16)  # one row per vector""",
}
_LIMITS = {
    "images": "Codes of pictures unlike the training pictures are less reliable: measure on your own first.",
    "nodes": "Nodes need the same features as in training, in the same order.",
    "vectors": "Vectors must come from the model that made the training vectors.",
}


def model_card(about: Mapping[str, Any], eigenvalues: Sequence[float], kind: str, name: str = "this/model") -> str:
    """Return the card as Markdown with the metadata that the hub reads."""
    training = about.get("training", {})
    sections = [
        _header(kind),
        f"# {name.split('/')[-1]}\n\nOrdered embeddings of {_INPUTS[kind]}, made with eigenmap {__version__}. Features "
        "are sorted by importance: the first 8 numbers of a code, or the first 64, are a good code of that length.",
        f"## Use\n\n```python\nimport eigenmap as em\n\n{_USE[kind].format(name=name)}\n```",
        _facts("Input", _input(about["input"], kind)),
        _facts("Training", _training(training, kind)),
        _spectrum(eigenvalues, about["alignment"].get("recall") or {}),
        f"## Limits\n\nLearned without labels. {_LIMITS[kind]} Codes of different models cannot be compared; this one "
        f"is `{about['weights_sha256'][:12]}`.",
    ]
    return "\n\n".join(sections) + "\n"


def _header(kind: str) -> str:
    tags = ["eigenmap", "feature-extraction", f"eigenmap-{kind}"]
    return "\n".join(["---", "library_name: eigenmap", "tags:", *(f"- {tag}" for tag in tags), "---"])


def _input(given: Mapping[str, Any], kind: str) -> dict[str, object]:
    if kind == "images":
        return {"size": f"{given['size']} x {given['size']} pixels", "channels": given["channels"]}
    return {name: value for name, value in given.items() if isinstance(value, (int, float, str, bool))}


def _training(training: Mapping[str, Any], kind: str) -> dict[str, object]:
    recipe = training.get("recipe", {})
    facts: dict[str, object] = {
        _INPUTS[kind]: training.get(kind) if isinstance(training.get(kind), int) else None,
        "held out": training.get("held_out_images"),
        "recipe": recipe.get("name"),
        "objective": recipe.get("objective"),
        "encoder": recipe.get("encoder"),
        "steps": training.get("steps"),
        "batch": recipe.get("batch_size"),
        "seed": training.get("seed"),
        "device": training.get("device"),
        "finished": training.get("finished"),
    }
    return {name: value for name, value in facts.items() if value is not None}


def _facts(title: str, facts: Mapping[str, object]) -> str:
    rows = [f"| {name} | {_shown(value)} |" for name, value in facts.items()]
    return "\n".join([f"## {title}", "", "| | |", "| --- | --- |", *rows]) if rows else f"## {title}\n\nNot recorded."


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _spectrum(eigenvalues: Sequence[float], recall: Mapping[Any, float]) -> str:
    shares = {int(length): share for length, share in recall.items()}
    rows = []
    for length in [d for d in LENGTHS if d < len(eigenvalues)] + [len(eigenvalues)]:
        kept = f"{100 * shares[length]:.0f} %" if length in shares else ""
        rows.append(f"| {length} | {eigenvalues[length - 1]:.3f} | {kept} |")
    text = "Eigenvalue of the last feature at each length, measured on held-out data (1: shared by related items)"
    text += ", and the share of the full code's nearest neighbours that the cut code finds." if shares else "."
    head = ["| length | eigenvalue | neighbours kept |", "| ---: | ---: | ---: |"]
    return "\n".join([f"## Spectrum\n\n{text}\n", *head, *rows])
