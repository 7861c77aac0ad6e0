"""Sentence-transformers folders: the modules of a base model, and modules that turn its vectors into codes.

A folder has a `modules.json` that lists modules in the order in which they run, each with its class and its sub-folder:

    [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}, ...]

A linear vector model becomes a `Dense` module without activation, so that the folder loads without eigenmap. A neural
one becomes a module whose class is in `eigenmap.export.sentence_transformers`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.files import json_bytes, read_json
from eigenmap.core.folders import staged_folder
from eigenmap.formats.linear_map import LinearMap

MODULES = "modules.json"
CONFIG = "config_sentence_transformers.json"
CODES = "eigenmap.export.sentence_transformers.Codes"
"""Class of the module of a neural model."""
_LIBRARY = "sentence_transformers."
_NOT_COPIED = shutil.ignore_patterns(".git", ".cache", "__pycache__")


@dataclass(frozen=True)
class Module:
    """A module to append.

    Attributes:
        type: import path of its class.
        write: function that fills its folder.

    """

    type: str
    write: Callable[[Path], object]

    @property
    def name(self) -> str:
        """Name of its class."""
        return self.type.rpartition(".")[2]


NORMALIZE = Module("sentence_transformers.models.Normalize", lambda folder: None)


def linear_modules(numbers: LinearMap) -> list[Module]:
    """Return modules that turn the base model's vectors into linear codes."""

    def write(folder: Path) -> None:
        from safetensors.numpy import save

        config = {
            "in_features": numbers.n_features,
            "out_features": numbers.n_components,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
        }
        (folder / "config.json").write_bytes(json_bytes(config, indent=2))
        weight, bias = numbers.folded.T.astype(np.float32, order="C"), numbers.bias.astype(np.float32)
        content = save({"linear.weight": weight, "linear.bias": bias}, metadata={"format": "pt"})
        (folder / "model.safetensors").write_bytes(content)

    first = [NORMALIZE] if numbers.unit else []
    return [*first, Module("sentence_transformers.models.Dense", write), NORMALIZE]


def own_modules(save: Callable[[Path], object]) -> list[Module]:
    """Return our own module around a saved model."""
    return [Module(CODES, save)]


def write_folder(
    base: object, out: str | Path, modules: Sequence[Module], lengths: tuple[int, int], overwrite: bool = False
) -> Path:
    """Write a sentence-transformers folder atomically: a copy of the base with modules appended.

    Args:
        base: a sentence-transformers folder, or a `SentenceTransformer`.
        out: the new folder.
        modules: modules to append.
        lengths: length of the vectors that the modules take, and of the codes that they return.
        overwrite: replace `out` if it is a sentence-transformers folder.

    """
    out = a_path(out, "out")
    source = None if callable(getattr(base, "save", None)) else a_path(base, "base")
    if source is not None and source.resolve() in out.resolve().parents:
        raise EigenmapError(f"{out} is inside the base model {source}; choose a folder outside it.")
    if source is not None:
        _check_length(source, read_modules(source), lengths[0])  # before anything is copied
    if out.exists() and not overwrite and not (out.is_dir() and not any(out.iterdir())):
        raise EigenmapError(f"{out} exists; choose another name, or allow overwriting.")
    with staged_folder(out, replace=overwrite, check=_require_modules) as staging:
        if source is None:
            base.save(str(staging))  # type: ignore[attr-defined]
            _check_length(staging, read_modules(staging), lengths[0])
        else:
            shutil.copytree(source, staging, dirs_exist_ok=True, ignore=_NOT_COPIED)
        _append(staging, modules)
        _describe(staging, lengths, loads_alone=all(module.type.startswith(_LIBRARY) for module in modules))
    return out


def read_modules(folder: Path) -> list[dict[str, Any]]:
    """Return the list in `modules.json`; raise if it is malformed."""
    file = folder / MODULES
    if not file.is_file():
        raise EigenmapError(
            f"{folder} is not a sentence-transformers folder, since it has no {MODULES}; save the base model with "
            "SentenceTransformer(...).save(folder)."
        )
    try:
        listed = read_json(file)
    except (OSError, ValueError) as error:
        raise EigenmapError(f"{file} is damaged or cannot be read: {error}.") from error
    if not isinstance(listed, list) or not listed or not all(_is_module(entry) for entry in listed):
        raise EigenmapError(f"{file} is damaged: it must be a list of modules with name, path and type.")
    return listed


def _is_module(entry: object) -> bool:
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("name", "path", "type")):
        return False
    path = PurePosixPath(entry["path"])
    return not path.is_absolute() and ".." not in path.parts and "\0" not in entry["path"]


def output_length(folder: Path, modules: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the length of the vectors that the modules make; None if the folder does not state it."""
    for entry in reversed(modules):
        kind = entry["type"].rpartition(".")[2]
        if kind in ("Normalize", "Dropout", "LayerNorm"):
            continue
        about = _config(folder / entry["path"] / "config.json")
        if kind == "Dense":
            return _whole(about.get("out_features"))
        if kind == "Pooling":
            width = _whole(about.get("embedding_dimension", about.get("word_embedding_dimension")))
            return None if width is None else width * _pooled(about)
        return None
    return None


def _pooled(about: Mapping[str, Any]) -> int:
    """Return the number of concatenated poolings."""
    mode = about.get("pooling_mode")
    if mode is not None:
        return len(mode) if isinstance(mode, list) else 1
    chosen = [value for name, value in about.items() if name.startswith("pooling_mode_") and value is True]
    return max(1, len(chosen))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _config(file: Path) -> Mapping[str, Any]:
    try:
        about = read_json(file)
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _check_length(folder: Path, modules: Sequence[Mapping[str, Any]], wanted: int) -> None:
    found = output_length(folder, modules)
    if found is not None and found != wanted:
        raise EigenmapError(
            f"The base model {folder} makes vectors of {found:,} numbers, but this model takes {wanted:,}; give the "
            "base model of the vectors that it was fitted to."
        )


def _append(folder: Path, modules: Sequence[Module]) -> None:
    listed = read_modules(folder)
    names = {entry["name"] for entry in listed}
    for module in modules:
        if module is NORMALIZE and listed[-1]["type"].endswith(".Normalize"):
            continue  # the base already scales its vectors
        number = next(n for n in range(len(listed), len(listed) + len(names) + 1) if str(n) not in names)
        place = folder / f"{number}_{module.name}"
        place.mkdir()
        module.write(place)
        names.add(str(number))
        listed.append({"idx": len(listed), "name": str(number), "path": place.name, "type": module.type})
    (folder / MODULES).write_bytes(json_bytes(listed, indent=2))


def _describe(folder: Path, lengths: tuple[int, int], *, loads_alone: bool) -> None:
    """Set the similarity to cosine, write a model card, and keep the card of the base as README-base.md."""
    about = {**_config(folder / CONFIG), "similarity_fn_name": "cosine"}
    about.pop("truncate_dim", None)
    (folder / CONFIG).write_bytes(json_bytes(about, indent=2))
    card = folder / "README.md"
    if card.is_file():
        card.rename(folder / "README-base.md")
    trusted = "" if loads_alone else ", trust_remote_code=True"
    needs = "" if loads_alone else "Loading it requires eigenmap.\n\n"
    card.write_text(
        "---\nlibrary_name: sentence-transformers\npipeline_tag: sentence-similarity\n---\n\n"
        f"# Ordered codes of {lengths[1]} features\n\n"
        f"A base model with {lengths[0]} numbers per text (see `README-base.md`, if present), followed by a map to "
        "codes whose features are sorted by importance. Cut codes at any length; compare them by cosine.\n\n"
        f"{needs}```python\nfrom sentence_transformers import SentenceTransformer\n\n"
        f'model = SentenceTransformer("FOLDER", truncate_dim={min(64, lengths[1])}{trusted})\n'
        'codes = model.encode(["a text"])\n```\n',
        encoding="utf-8",
    )


def _require_modules(there: Path) -> None:
    if not (there / MODULES).is_file():
        raise EigenmapError(f"{there} exists and is not a sentence-transformers folder; choose another name.")
