"""Summary of an index for the page: facts, lengths and gallery, computed once per explorer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

from eigenmap import __version__
from eigenmap.service.explorer import Explorer, Item, key_of
from eigenmap.service.opening import opening_number
from eigenmap.service.scheduling import Limits


class Summary:
    """An explorer and its constant answers."""

    def __init__(self, explorer: Explorer, limits: Limits) -> None:
        self.explorer = explorer
        count = len(explorer.index)
        spectrum = explorer.eigenvalues()
        sizes = [explorer.bytes_per_item(dim) for dim in range(1, explorer.index.n_components + 1)]
        view = explorer.overview
        suggested = _suggested(explorer)
        opening_dim = suggested.get("0.95") or min(16, explorer.index.n_components)
        self.about: dict[str, Any] = {
            "name": explorer.name,
            "items": count,
            "n_components": explorer.index.n_components,
            "metric": explorer.index.metric,
            "precision": explorer.index.about.precision,
            "model": explorer.model_name,
            "overview_items": len(view),
            "gallery_features": view.features,
            "eigenvalues": spectrum,
            "bytes_per_item": sizes,
            "suggested_dims": suggested,
            "opening_dim": opening_dim,
            "opening": key_of(view.ids[opening_number(view, opening_dim)]),
            "fields": explorer.fields(),
            "classes": view.classes,
            "large_pictures": explorer.has_large,
            "can_encode": explorer.takes_pictures,
            "vector_length": explorer.vector_length,
            "texts": explorer.shows_texts,
            "upload_bytes": limits.upload_bytes,
            "upload_pixels": limits.upload_pixels,
            "version": __version__,
        }
        self.lengths: list[dict[str, Any]] = [
            {"dim": dim, "bytes_per_item": size, "total_bytes": size * count, "eigenvalue": mu}
            for dim, (size, mu) in enumerate(zip(sizes, spectrum or repeat(None), strict=False), start=1)
        ]
        self.gallery: list[dict[str, Any]] = [
            {
                **feature._asdict(),
                "eigenvalue": spectrum[feature.number - 1] if spectrum else None,
                "most": self.numbered(feature.most, feature.number),
                "least": self.numbered(feature.least, feature.number),
            }
            for feature in view.gallery()
        ]

    def numbered(self, numbers: Sequence[int], feature: int = 1) -> list[dict[str, Any]]:
        """Return items of the overview with their value of a feature."""
        view = self.explorer.overview
        values = view.values(numbers, feature)
        return [Item(view.ids[n], view.metadata[n], value).as_json() for n, value in zip(numbers, values, strict=True)]


def _suggested(explorer: Explorer) -> dict[str, int]:
    model = explorer.model
    if model is None or not model.alignment.recall:
        return {}
    most = explorer.index.n_components
    return {str(share): min(most, model.suggest_dim(recall=share)) for share in (0.9, 0.95, 0.99)}
