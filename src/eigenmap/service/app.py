"""The routes: a page at `/`, a JSON API under `/api`, its schema at `/openapi.json`, counters at `/metrics`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from itertools import repeat
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from eigenmap import __version__
from eigenmap.errors import EigenmapError
from eigenmap.search.filters import conditions, parse
from eigenmap.service import quality, schemas
from eigenmap.service.metrics import Metrics
from eigenmap.service.schemas import MOST_NUMBERS, MOST_RESULTS, SearchRequest
from eigenmap.service.security import UPLOADS, Guard
from eigenmap.service.state import Ask, Explorer, Features, Item, id_of
from eigenmap.service.state import Query as Asked
from eigenmap.service.thumbnails import media_type
from eigenmap.service.uploads import Refused, read_body
from eigenmap.service.work import Batches, BusyError, Limits, Slots

Responses: TypeAlias = dict[int | str, dict[str, Any]]

_STATIC = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    **dict.fromkeys(["app.js", "api.js", "charts.js", "gallery.js", "map.js", "search.js"], "text/javascript"),
}
_PROBLEM: dict[str, Any] = {"model": schemas.Problem}
_WRONG: Responses = {422: _PROBLEM | {"description": "The request makes no sense."}}
_NONE: Responses = {404: _PROBLEM | {"description": "There is no such item."}}
_BUSY: Responses = {
    429: _PROBLEM | {"description": "Too much is waiting already; Retry-After says when to come back."},
    503: _PROBLEM | {"description": "The server is full, or still preparing this; see Retry-After."},
}
_BODY: Responses = {
    400: _PROBLEM | {"description": "The body is no JSON."},
    413: _PROBLEM | {"description": "Too large."},
}
_UPLOAD: Responses = {
    408: _PROBLEM | {"description": "The body took too long to arrive."},
    413: _PROBLEM | {"description": "Too many bytes or pixels."},
    415: _PROBLEM | {"description": "No picture of a format that is read."},
    501: _PROBLEM | {"description": "The index has no model in it."},
}

DimQuery = Annotated[int | None, Query(ge=1, description="Compare so many features; all if left out.")]
TopQuery = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="Results.")]
WhereQuery = Annotated[
    list[str], Query(max_length=16, description="Conditions such as label=cat or year>=2020; all must hold.")
]
FeaturesQuery = Annotated[Features, Query(description="random: features taken without regard to their order.")]


class Json(Response):
    """ASCII JSON: a file name that is not UTF-8 arrives as it is."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The content as bytes."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Service:
    """What the routes share."""

    def __init__(self, explorer: Explorer, limits: Limits) -> None:
        self.explorer = explorer
        self.limits = limits
        self.metrics = Metrics()
        self.searches: Batches[Ask, Asked, list[Item]] = Batches(
            explorer.answer, limits.searches_waiting, limits.searches_at_once
        )
        self.uploads = Slots(1, limits.uploads_waiting, "encode")
        self.others = Slots(2, limits.others_waiting, "read")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Threads that live as long as the application; what was asked is answered before they end."""
        self.searches.start()
        preparing = asyncio.get_running_loop().run_in_executor(None, self.explorer.prepare)
        try:
            yield
        finally:
            await preparing
            await self.searches.close()
            self.uploads.close()
            self.others.close()

    def check_dim(self, dim: int | None) -> int:
        """Where codes are cut, all features for None."""
        most = self.explorer.index.n_components
        if dim is not None and not 1 <= dim <= most:
            raise Refused(422, f"dim must be a whole number from 1 to {most}, not {dim}")
        return dim or most

    async def search(
        self, query: Asked, dim: int | None, top: int, features: Features, where: dict[str, Any] | None
    ) -> dict[str, Any]:
        """The answer to one search."""
        began = time.perf_counter()
        length = self.check_dim(dim)
        conditions(where)  # a filter that makes no sense is refused before it waits
        ask = Ask(features, length, top, json.dumps(where or {}, sort_keys=True))
        items = await self.searches.ask(ask, query)
        return {
            "dim": length,
            "features": features,
            "milliseconds": round(1000 * (time.perf_counter() - began), 3),
            "items": [item.as_json() for item in items],
        }

    def numbered(self, numbers: Sequence[int], feature: int = 1) -> list[dict[str, Any]]:
        """Items of the overview, and what they have of a feature."""
        view = self.explorer.overview
        values = view.values(numbers, feature)
        return [Item(view.ids[n], view.metadata[n], value).as_json() for n, value in zip(numbers, values, strict=True)]

    def check_feature(self, number: int) -> int:
        """A feature of the gallery, counted from 1."""
        most = self.explorer.overview.features
        if not 1 <= number <= most:
            raise Refused(404, f"there is no feature {number} in the gallery; it has 1 to {most}")
        return number


def create_app(explorer: Explorer, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """The application, for uvicorn or any other ASGI server.

    app = create_app(Explorer.open(Path("photos.index")))
    """
    service = Service(explorer, limits or Limits())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="eigenmap explorer",
        version=__version__,
        description="Search by ordered codes, cut at any length.",
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Json,
    )
    app.state.service = service
    _add_errors(app)
    _add_pages(app)
    _add_search(app, service)
    _add_overview(app, service)
    _add_health(app, service)
    app.add_middleware(Guard, limits=service.limits, token=token, count=service.metrics.count)
    return app


def _add_errors(app: FastAPI) -> None:
    def problem(status: int, reason: str, headers: dict[str, str] | None = None) -> Json:
        return Json({"detail": reason}, status, headers)

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return problem(429, str(error), {"Retry-After": str(error.retry_after)})

    @app.exception_handler(EigenmapError)
    async def refused(_: Request, error: EigenmapError) -> Response:
        status = error.status if isinstance(error, Refused) else 422
        return problem(status, str(error), {"Retry-After": "1"} if status == 503 else None)

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> Response:
        reasons = [f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}" for each in error.errors()]
        return problem(422, "; ".join(reasons[:5]))

    @app.exception_handler(HTTPException)
    async def refused_by_framework(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))


def _add_pages(app: FastAPI) -> None:
    folder = resources.files("eigenmap.service").joinpath("static")
    files = {name: folder.joinpath(name).read_bytes() for name in _STATIC}

    def show(name: str) -> Response:
        return Response(files[name], headers={"Content-Type": _STATIC[name], "Cache-Control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return show("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in files or name == "index.html":
            raise Refused(404, "there is no such file")
        return show(name)


def _add_search(app: FastAPI, service: Service) -> None:
    explorer, limits = service.explorer, service.limits

    @app.get("/api/search", response_model=schemas.Found, responses=_WRONG | _NONE | _BUSY, tags=["search"])
    async def search_by_id(
        id: Annotated[str | None, Query(description="Of the item to search by.")] = None,
        key: Annotated[str | None, Query(max_length=8192, description="The same as `key`.")] = None,
        dim: DimQuery = None,
        top: TopQuery = 10,
        features: FeaturesQuery = "ordered",
        where: WhereQuery = [],  # noqa: B006 - FastAPI copies it
    ) -> Response:
        """Items most like one of the index."""
        if (id is None) == (key is None):
            raise Refused(422, "search by an id or by a key: give one of them")
        name = explorer.item_id(id if id is not None else id_of(key or ""))
        return Json(await service.search(name, dim, top, features, parse(where)))

    @app.post("/api/search", response_model=schemas.Found, responses=_WRONG | _NONE | _BUSY | _BODY, tags=["search"])
    async def search(request: SearchRequest) -> Response:
        """Items most like one of the index, or like a code."""
        given = [request.id is not None, request.key is not None, request.vector is not None]
        if sum(given) != 1:
            raise Refused(422, "search by an id, a key or a vector: give one of them")
        query: Asked
        if request.vector is not None:
            query = tuple(request.vector)
        else:
            query = explorer.item_id(str(request.id) if request.id is not None else id_of(request.key or ""))
        return Json(await service.search(query, request.dim, request.top, request.features, request.where))

    @app.post(
        UPLOADS,
        response_model=schemas.Found,
        responses=_WRONG | _BUSY | _UPLOAD,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
        tags=["search"],
    )
    async def search_by_image(
        request: Request,
        dim: DimQuery = None,
        top: TopQuery = 10,
        features: FeaturesQuery = "ordered",
        where: WhereQuery = [],  # noqa: B006
    ) -> Response:
        """Items most like a picture: the body is a JPEG, PNG, WebP, GIF or BMP file, which is not kept."""
        async with service.uploads.taking():
            body = await read_body(request.stream(), limits.upload_bytes, limits.upload_seconds)
            code = await service.uploads.run_taken(explorer.encode, body, limits.upload_pixels)
        found = await service.search(code, dim, top, features, parse(where))
        return Json(found | {"vector": code})

    @app.get(
        "/api/images/{key}",
        response_class=Response,
        responses=_NONE
        | _WRONG
        | _BUSY
        | {200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."}},
        tags=["items"],
    )
    async def image(key: Annotated[str, Path(max_length=8192)]) -> Response:
        """The picture of an item, small."""
        content = await service.others.run(explorer.pictures.read, id_of(key))
        if content is None:
            raise Refused(404, "there is no picture of this item")
        return Response(content, media_type=media_type(content), headers={"Cache-Control": "private, max-age=3600"})


def _add_overview(app: FastAPI, service: Service) -> None:
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

    @app.get("/api/features", response_model=list[schemas.FeatureOut], tags=["overview"])
    async def features() -> Response:
        """The first eigenfunctions: the items each excites most and least, and how its values are distributed."""
        return Json(gallery)

    @app.get(
        "/api/features/{number}/items", response_model=schemas.Page, responses=_NONE | _WRONG | _BUSY, tags=["overview"]
    )
    async def sorted_items(
        number: int,
        offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
        limit: Annotated[int, Query(ge=1, le=MOST_RESULTS)] = 48,
        first: Annotated[Literal["most", "least"], Query(description="Which end comes first.")] = "most",
    ) -> Response:
        """The collection sorted by one eigenfunction, a page at a time."""
        order = await service.others.run(view.sorted_by, service.check_feature(number))
        numbers = (order if first == "most" else order[::-1])[offset : offset + limit].tolist()
        return Json({"total": len(view), "offset": offset, "items": service.numbered(numbers, number)})

    @app.get("/api/map", response_model=schemas.MapOut, responses=_NONE | _WRONG | _BUSY, tags=["overview"])
    async def places(x: int = 1, y: int = 2) -> Response:
        """Where the items lie by two eigenfunctions."""
        points = await service.others.run(view.map, service.check_feature(x), service.check_feature(y))
        content = {"x": x, "y": y, "count": len(view), "classes": view.class_codes(), **points._asdict()}
        return Json(content, headers={"Cache-Control": "private, max-age=60"})

    @app.get("/api/items", response_model=schemas.Items, responses=_NONE | _WRONG, tags=["items"])
    async def items(
        number: Annotated[list[int], Query(max_length=MOST_NUMBERS, description="Numbers on the map, from 0.")] = [],  # noqa: B006
    ) -> Response:
        """Items by their number on the map; they are in random order, so that the first few are a sample."""
        if any(not 0 <= one < len(view) for one in number):
            raise Refused(404, f"item numbers run from 0 to {len(view) - 1}")
        return Json({"items": service.numbered(number)})


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/api/health", response_model=schemas.Health, tags=["about"])
    async def health() -> Response:
        """Whether the service lives."""
        return Json({"status": "ok", "items": len(service.explorer.overview)})

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "Prometheus text."}},
        tags=["about"],
    )
    async def metrics() -> Response:
        """Requests, times and queues, as Prometheus reads them."""
        searches = service.searches
        gauges = [
            ("eigenmap_items", "gauge", "Items in the overview.", float(len(service.explorer.overview))),
            ("eigenmap_searches_waiting", "gauge", "Searches in the queue.", float(searches.waiting)),
            ("eigenmap_uploads_waiting", "gauge", "Uploads being read or encoded.", float(service.uploads.taken)),
            ("eigenmap_scans_total", "counter", "Scans of the index, each for one or more searches.", searches.scans),
            ("eigenmap_scan_seconds_total", "counter", "Time spent in them.", searches.scan_seconds),
        ]
        return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


def _suggested(explorer: Explorer) -> dict[str, int]:
    model = explorer.model
    if model is None or not model.alignment.recall:
        return {}
    most = explorer.index.n_components
    return {str(share): min(most, model.suggest_dim(recall=share)) for share in (0.9, 0.95, 0.99)}
