"""Sentence-transformers module for vector models with a neural head; `modules.json` names its class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn

from eigenmap.export.onnx import Pipeline
from eigenmap.model import Eigenmap


class Codes(nn.Module):
    """Sentence embeddings -> ordered codes of norm 1; its folder is a saved vector model."""

    def __init__(self, model: Eigenmap) -> None:
        super().__init__()
        self.model = model
        self.pipeline = Pipeline(model, model.n_components)

    def forward(self, features: dict[str, Any], **options: Any) -> dict[str, Any]:
        """Replace the sentence embedding by its code."""
        embedding: Tensor = features["sentence_embedding"]
        features["sentence_embedding"] = self.pipeline(embedding)
        return features

    def get_embedding_dimension(self) -> int:
        """Length of a code."""
        return self.model.n_components

    def get_sentence_embedding_dimension(self) -> int:
        """Length of a code, under the name used by earlier versions of sentence-transformers."""
        return self.get_embedding_dimension()

    def save(self, output_path: str, *args: Any, **options: Any) -> None:
        """Write the model."""
        self.model.save(output_path)

    @staticmethod
    def load(input_path: str) -> Codes:
        """Read the folder of the module."""
        return Codes(Eigenmap.load(Path(input_path)))
