"""Routes about the index as a whole: description, eigenfunctions, map, quality by length."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from eigenmap.service import quality, schemas
from eigenmap.service.overview import FEATURES
from eigenmap.service.runtime import BUSY, NONE, WRONG, Json, Service, check_feature
from eigenmap.service.schemas import MOST_NUMBERS, MOST_RESULTS
from eigenmap.service.search_routes import PicturesQuery
from eigenmap.service.uploads import Refused


def overview_routes(service: Service) -> APIRouter:
    """Return the routes whose answers were computed when the index was opened."""
    app = APIRouter()

    @app.get("/api/about", response_model=schemas.IndexOut, responses=BUSY, tags=["about"])
    async def describe() -> Response:
        """Describe the index and the queries it supports."""
        summary = service.summary
        items = await service.others.run(len, summary.explorer.index)
        return Json(summary.about | {"items": items})

    @app.get("/api/lengths", response_model=list[schemas.LengthOut], tags=["about"])
    async def lengths() -> Response:
        """Report the cost of codes at every length."""
        return Json(service.summary.lengths)

    @app.get("/api/quality", response_model=schemas.QualityOut, tags=["about"])
    async def quality_against_length() -> Response:
        """Report mAP by length on labelled items of this index, and that of random features."""
        explorer = service.explorer
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
        """List the leading eigenfunctions: histogram of values, items with the largest and smallest values."""
        summary = service.summary
        some = [
            {**feature, "most": [*map(dict, feature["most"])], "least": [*map(dict, feature["least"])]}
            for feature in summary.gallery[first - 1 : first - 1 + count]
        ]
        if pictures:
            shown = [item for feature in some for end in ("most", "least") for item in feature[end]]
            await service.pictured(summary.explorer, shown)
        return Json(some)

    @app.get(
        "/api/features/{number}/items", response_model=schemas.PageOut, responses=NONE | WRONG | BUSY, tags=["overview"]
    )
    async def sorted_items(
        number: int,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        first: Annotated[Literal["most", "least"], Query(description="Which end to list first.")] = "most",
        pictures: PicturesQuery = False,
    ) -> Response:
        """List the collection sorted by one eigenfunction, one page at a time."""
        summary = service.summary
        explorer, view = summary.explorer, summary.explorer.overview
        order = await service.others.run(view.sorted_by, check_feature(explorer, number))
        numbers = (order if first == "most" else order[::-1])[offset : offset + limit].tolist()
        items = summary.numbered(numbers, number)
        if pictures:
            await service.pictured(explorer, items)
        return Json({"total": len(view), "offset": offset, "items": items})

    @app.get("/api/map", response_model=schemas.MapOut, responses=NONE | WRONG | BUSY, tags=["overview"])
    async def places(x: int = 1, y: int = 2) -> Response:
        """Return the positions of the items on two eigenfunctions."""
        explorer = service.explorer
        view = explorer.overview
        points = await service.others.run(view.map, check_feature(explorer, x), check_feature(explorer, y))
        content = {"x": x, "y": y, "count": len(view), "classes": view.class_codes(), **points._asdict()}
        return Json(content, headers={"Cache-Control": "private, max-age=60"})

    @app.get("/api/items", response_model=schemas.ItemsOut, responses=NONE | WRONG | BUSY, tags=["items"])
    async def items(
        number: Annotated[list[int], Query(max_length=MOST_NUMBERS, description="Numbers on the map, from 0.")] = [],  # noqa: B006
        pictures: PicturesQuery = False,
    ) -> Response:
        """List items by their number on the map. Numbers are in random order, so the first few are a sample."""
        summary = service.summary
        view = summary.explorer.overview
        if any(not 0 <= one < len(view) for one in number):
            raise Refused(404, f"item numbers run from 0 to {len(view) - 1}")
        found = summary.numbered(number)
        if pictures:
            await service.pictured(summary.explorer, found)
        return Json({"items": found})

    return app
