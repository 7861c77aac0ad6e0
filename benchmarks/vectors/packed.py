r"""The study's texts and models in few bytes, and their vectors made elsewhere: on a lent GPU, say.

    python -m benchmarks.vectors.packed pack PACK --minilm FOLDER --wordllama FOLDER debian=LISTS wordnet=DICT ...
    python -m benchmarks.vectors.packed embed PACK --out DATA

A pack holds texts as token numbers, so that the other machine needs no tokenizer, and of each model the rows of its
vocabulary that occur. MiniLM's weights are rounded to bfloat16, in which `prepare --bfloat16` multiplies anyway; its
products are float32 here. Each model is a part of its own, so that parts can travel one by one. `embed` writes what
`prepare` would: one .npy file per set, side and model that is in the pack.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.common import harness
from benchmarks.vectors.models import Bert, BertShape, MiniLM, Rows, Table, TextModel, WordLlama, embed_tokens
from benchmarks.vectors.prepare import facts, sides

WORDS, PLACES = "embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"
UNUSED = "pooler."
"""Weights of a layer that the vectors do not need."""
BATCH_TOKENS = {"cpu": 8_192, "cuda": 262_144}
Numbers = npt.NDArray[np.int64]


def pack(folder: Path, sources: Sequence[tuple[str, Path]], models: dict[str, TextModel]) -> None:
    """Write the tokens of all sets, and the weights that they need, one folder per model."""
    texts: dict[str, Sequence[str]] = {}
    for name, source in sources:
        about = folder / "sets" / name
        about.mkdir(parents=True, exist_ok=True)
        both = list(sides(name, source, None, about))
        texts |= {f"{name}/{side.name}": side.texts for side in both}
        harness.write(about / "about.json", {"set": name, "sides": {side.name: facts(side) for side in both}})
    for name, model in models.items():
        tokens = {side: model.tokens(some) for side, some in texts.items()}
        used = np.unique(np.concatenate([np.asarray(each, np.int64) for some in tokens.values() for each in some]))
        part = folder / name
        part.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, npt.NDArray[Any]] = {}
        for side, some in tokens.items():
            flat = np.concatenate([np.asarray(each, np.int64) for each in some])
            arrays[f"{side}/tokens"] = np.searchsorted(used, flat).astype(np.uint16)
            arrays[f"{side}/lengths"] = np.array([len(each) for each in some], np.uint16)
        _write(part / "tokens.xz", arrays)
        longest = max(len(each) for some in tokens.values() for each in some)
        _write(part / "weights.xz", weights_of(model, used, longest))


def weights_of(model: TextModel, used: Numbers, longest: int) -> dict[str, npt.NDArray[Any]]:
    """The weights for these tokens in texts of at most this length, as arrays of 16 bits."""
    if isinstance(model, Table):
        return {"table": _bits(model.table[torch.from_numpy(used)].half()), "middle": model.middle.numpy()}
    assert isinstance(model, MiniLM)
    made = {name: value for name, value in model.weights.items() if value.is_floating_point() and UNUSED not in name}
    made[WORDS] = made[WORDS][torch.from_numpy(used)]
    made[PLACES] = made[PLACES][:longest]
    shape = np.array(json.dumps(model.shape._asdict()))
    return {"shape": shape, **{name: _bits(value.bfloat16()) for name, value in made.items()}}


def _bits(values: Tensor) -> npt.NDArray[np.uint8]:
    """The two bytes of each number in planes of their own, its sign last: the exponents alone compress well."""
    bits = values.contiguous().view(torch.int16).numpy().view(np.uint16)
    turned = bits << 1 | bits >> 15
    return np.stack([turned & 255, turned >> 8]).astype(np.uint8)


def _values(planes: npt.NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    """The numbers of `_bits`, in float32."""
    turned = planes[0] | planes[1].astype(np.uint16) << 8
    bits = turned >> 1 | turned << 15
    return torch.from_numpy(bits.view(np.int16)).view(dtype).float()


def model_of(part: Path, device: str) -> Rows:
    """The model of a part of a pack."""
    held = _read(part / "weights.xz")
    if "table" in held:
        return Table(_values(held["table"], torch.float16).to(device), torch.from_numpy(held["middle"]).to(device))
    shape = BertShape(**json.loads(str(held.pop("shape"))))
    return Bert({name: _values(bits, torch.bfloat16).to(device) for name, bits in held.items()}, shape)


def embed(folder: Path, out: Path, device: str) -> None:
    """Write the vectors of every set by every model of a pack."""
    for part in sorted(each.parent for each in folder.glob("*/weights.xz")):
        model, arrays = model_of(part, device), _read(part / "tokens.xz")
        for side in sorted({name.rpartition("/")[0] for name in arrays}):
            flat, lengths = arrays[f"{side}/tokens"], arrays[f"{side}/lengths"].astype(np.int64)
            tokens = np.split(flat, lengths.cumsum()[:-1])
            name = side.partition("/")[0]
            shutil.copytree(folder / "sets" / name, out / name, dirs_exist_ok=True)
            rows = embed_tokens(model, tokens, most=BATCH_TOKENS[device])  # type: ignore[arg-type]
            np.save(out / f"{side}.{part.name}.npy", rows)
            print(f"{side}.{part.name}: {rows.shape[0]:,} x {rows.shape[1]}", flush=True)
    harness.write(out / "about.json", {**harness.environment(), "device": device})


def _write(file: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    plain = io.BytesIO()
    np.savez(plain, **arrays)
    file.write_bytes(lzma.compress(plain.getvalue(), preset=9))


def _read(file: Path) -> dict[str, npt.NDArray[Any]]:
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as held:
        return {name: held[name] for name in held.files}


def main(words: Sequence[str] | None = None) -> int:
    given = parser().parse_args(words)
    if given.verb == "pack":
        models: dict[str, TextModel] = {}
        if given.minilm is not None:
            models["minilm"] = MiniLM(given.minilm)
        if given.wordllama is not None:
            models["wordllama"] = WordLlama(given.wordllama)
        pack(
            given.pack,
            [(name, Path(source)) for name, _, source in (each.partition("=") for each in given.sets)],
            models,
        )
    else:
        embed(given.pack, given.out, "cuda" if torch.cuda.is_available() else "cpu")
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = made.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="texts and models -> a pack")
    packing.add_argument("pack", type=Path)
    packing.add_argument("sets", nargs="+", help="NAME=SOURCE, as `prepare` takes them")
    packing.add_argument("--minilm", type=Path, help="a sentence-transformers folder")
    packing.add_argument("--wordllama", type=Path, help="the folder of the package wordllama")
    embedding = verbs.add_parser("embed", help="a pack -> vectors")
    embedding.add_argument("pack", type=Path)
    embedding.add_argument("--out", type=Path, required=True, help="folder of data; each set gets a folder in it")
    return made


if __name__ == "__main__":
    sys.exit(main())
