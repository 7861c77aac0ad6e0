"""Folders of sentence-transformers loaded by that library: without eigenmap if the model is linear."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.formats.models import vector_model

SOURCE = str(Path(__file__).parents[2] / "src")

# In processes of their own: the library takes seconds to import, and what a folder imports shows.
BASE = """
import sys

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

words = "[UNK] a game of chess library for images games".split()
tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
weights = np.random.default_rng(0).normal(1.0, 2.0, size=(len(words), 12)).astype(np.float32)
base = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu")
base.save("base")
np.save("vectors.npy", base.encode(TEXTS))
"""
LOAD = """
import sys

import numpy as np
from sentence_transformers import SentenceTransformer

for name in ("linear", "plain", "neural"):  # the neural one last, since it imports eigenmap
    made = {}
    for dim in (None, 3):
        model = SentenceTransformer(name, device="cpu", truncate_dim=dim, trust_remote_code=name == "neural")
        made[f"codes{dim}"] = model.encode(TEXTS)
        made[f"unit{dim}"] = model.encode(TEXTS, normalize_embeddings=True)
        made[f"length{dim}"] = model.get_sentence_embedding_dimension()
    np.savez(f"{name}.npz", imported="eigenmap" in sys.modules, similarity=model.similarity_fn_name, **made)
"""
TEXTS = ["a game of chess", "chess", "a library for images", "images of games"]


def run(program: str, folder: Path) -> None:
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PYTHONPATH": SOURCE}
    command = [sys.executable, "-c", f"TEXTS = {TEXTS!r}\n{program}"]
    done = subprocess.run(command, env={**os.environ, **quiet}, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_library_makes_the_models_codes(tmp_path: Path) -> None:
    run(BASE, tmp_path)
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (4, 12)
    models = {"linear": vector_model(True), "plain": vector_model(False), "neural": vector_model(True, width=6)}
    for name, model in models.items():
        model.to_sentence_transformers(tmp_path / "base", tmp_path / name)
    run(LOAD, tmp_path)
    for name, model in models.items():
        with np.load(tmp_path / f"{name}.npz") as made:
            np.testing.assert_allclose(made["codesNone"], model.encode(vectors), rtol=0, atol=2e-6, err_msg=name)
            np.testing.assert_allclose(made["unit3"], model.encode(vectors, 3), rtol=0, atol=2e-6, err_msg=name)
            np.testing.assert_array_equal(made["codes3"], made["codesNone"][:, :3])
            assert (int(made["lengthNone"]), int(made["length3"])) == (7, 3)
            assert str(made["similarity"]) == "cosine" and bool(made["imported"]) is (name == "neural")
