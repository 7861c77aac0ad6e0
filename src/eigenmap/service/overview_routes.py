"""Routes about the index as a whole: what it is, its eigenfunctions, its map, its quality against length."""

from __future__ import annotations

from itertools import repeat
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response

from eigenmap import __version__
from eigenmap.service import quality, schemas
from eigenmap.service.overview import FEATURES
from eigenmap.service.runtime import BUSY, NONE, WRONG, Json, Service
from eigenmap.service.schemas import MOST_NUMBERS, MOST_RESULTS
from eigenmap.service.search_routes import PicturesQuery
from eigenmap.service.state import Explorer
from eigenmap.service.uploads import Refused


def overview_routes(service: Service) -> APIRouter:
    """Everything that was computed when the service started."""
    app = APIRouter()
    explorer, view = service.explorer, service.explorer.overview
    count = len(explorer.index)
    spectrum = explorer.eigenvalues()
    sizes = [explorer.bytes_per_item(dim) for dim in range(1, explorer.index.n_components + 1)]
    gallery: list[dict[str, Any]] = [
        {
            **feature._asdict(),
            "eigenvalue": spectrum[feature.number - 1] if spectrum else None,
            "most": service.numbered(feature.most, feature.number),
            "least": service.numbered(feature.least, feature.number),
        }
        for feature in view.gallery()
    ]
    about = {
        "name": explorer.name,
        "items": count,
        "n_components": explorer.index.n_components,
        "metric": explorer.index.metric,
        "precision": explorer.index.about.precision,
        "overview_items": len(view),
        "gallery_features": view.features,
        "eigenvalues": spectrum,
        "bytes_per_item": sizes,
        "suggested_dims": _suggested(explorer),
        "fields": explorer.fields(),
        "classes": view.classes,
        "large_pictures": explorer.has_large,
        "can_encode": explorer.model is not None,
        "upload_bytes": service.limits.upload_bytes,
        "upload_pixels": service.limits.upload_pixels,
        "version": __version__,
    }

    @app.get("/api/about", response_model=schemas.About, tags=["about"])
    async def describe() -> Response:
        """The index, and what can be asked of it."""
        return Json(about)

    @app.get("/api/lengths", response_model=list[schemas.Length], tags=["about"])
    async def lengths() -> Response:
        """What codes of every length cost."""
        rows = [
            {"dim": dim, "bytes_per_item": size, "total_bytes": size * count, "eigenvalue": mu}
            for dim, (size, mu) in enumerate(zip(sizes, spectrum or repeat(None), strict=False), start=1)
        ]
        return Json(rows)

    @app.get("/api/quality", response_model=schemas.QualityOut, tags=["about"])
    async def quality_against_length() -> Response:
        """MAP at each length on labelled items of this index, beside that of random features."""
        known = explorer.quality
        if known is not None:
            return Json({"state": "ready", "metric": quality.METRIC, **known._asdict()})
        return Json({"state": "unlabelled" if explorer.quality_known else "computing", "metric": quality.METRIC})

    @app.get("/api/features", response_model=list[schemas.FeatureOut], responses=WRONG | BUSY, tags=["overview"])
    async def features(
        first: Annotated[int, Query(ge=1, le=10**6)] = 1,
        count: Annotated[int, Query(ge=1, le=FEATURES)] = FEATURES,
        pictures: PicturesQuery = False,
    ) -> Response:
        """The first eigenfunctions: the items each excites most and least, and how its values are distributed."""
        some = [
            {**feature, "most": [*map(dict, feature["most"])], "least": [*map(dict, feature["least"])]}
            for feature in gallery[first - 1 : first - 1 + count]
        ]
        if pictures:
            await service.pictured([item for feature in some for end in ("most", "least") for item in feature[end]])
        return Json(some)

    @app.get(
        "/api/features/{number}/items", response_model=schemas.Page, responses=NONE | WRONG | BUSY, tags=["overview"]
    )
    async def sorted_items(
        number: int,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        first: Annotated[Literal["most", "least"], Query(description="Which end comes first.")] = "most",
        pictures: PicturesQuery = False,
    ) -> Response:
        """The collection sorted by one eigenfunction, a page at a time."""
        order = await service.others.run(view.sorted_by, service.check_feature(number))
        numbers = (order if first == "most" else order[::-1])[offset : offset + limit].tolist()
        items = service.numbered(numbers, number)
        if pictures:
            await service.pictured(items)
        return Json({"total": len(view), "offset": offset, "items": items})

    @app.get("/api/map", response_model=schemas.MapOut, responses=NONE | WRONG | BUSY, tags=["overview"])
    async def places(x: int = 1, y: int = 2) -> Response:
        """Where the items lie by two eigenfunctions."""
        points = await service.others.run(view.map, service.check_feature(x), service.check_feature(y))
        content = {"x": x, "y": y, "count": len(view), "classes": view.class_codes(), **points._asdict()}
        return Json(content, headers={"Cache-Control": "private, max-age=60"})

    @app.get("/api/items", response_model=schemas.Items, responses=NONE | WRONG | BUSY, tags=["items"])
    async def items(
        number: Annotated[list[int], Query(max_length=MOST_NUMBERS, description="Numbers on the map, from 0.")] = [],  # noqa: B006
        pictures: PicturesQuery = False,
    ) -> Response:
        """Items by their number on the map; they are in random order, so that the first few are a sample."""
        if any(not 0 <= one < len(view) for one in number):
            raise Refused(404, f"item numbers run from 0 to {len(view) - 1}")
        found = service.numbered(number)
        if pictures:
            await service.pictured(found)
        return Json({"items": found})

    return app


def _suggested(explorer: Explorer) -> dict[str, int]:
    model = explorer.model
    if model is None or not model.alignment.recall:
        return {}
    most = explorer.index.n_components
    return {str(share): min(most, model.suggest_dim(recall=share)) for share in (0.9, 0.95, 0.99)}
