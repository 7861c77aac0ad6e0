"""Web application: a page at `/`, a JSON API under `/api`, its schema at `/openapi.json`, counters at `/metrics`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from eigenmap import __version__
from eigenmap.core.errors import EigenmapError, ReplacedError
from eigenmap.core.redaction import redacted
from eigenmap.search.filters import NestedError
from eigenmap.service import schemas
from eigenmap.service.explorer import Explorer
from eigenmap.service.overview_routes import overview_routes
from eigenmap.service.runtime import Json, Service
from eigenmap.service.scheduling import BusyError, Limits
from eigenmap.service.search_routes import search_routes
from eigenmap.service.security import Guard
from eigenmap.service.uploads import Refused

_STATIC = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    **dict.fromkeys(
        ["app.js", "api.js", "charts.js", "enlarge.js", "gallery.js", "map.js", "search.js", "vectors.js"],
        "text/javascript",
    ),
}


def create_app(explorer: Explorer, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """Return the application, for uvicorn or any other ASGI server.

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
        docs_url=None,  # both documentation pages load scripts from other sites
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=Json,
    )
    app.state.service = service
    _add_errors(app, service)
    _add_pages(app)
    app.include_router(search_routes(service))
    app.include_router(overview_routes(service))
    _add_health(app, service)
    app.add_middleware(Guard, limits=service.limits, token=token, count=service.metrics.count)
    return app


def _add_errors(app: FastAPI, service: Service) -> None:
    def problem(status: int, reason: str, headers: dict[str, str] | None = None) -> Json:
        return Json({"detail": redacted(reason)}, status, headers)

    @app.exception_handler(BusyError)
    async def busy(_: Request, error: BusyError) -> Response:
        return problem(429, str(error), {"Retry-After": str(error.retry_after)})

    @app.exception_handler(ReplacedError)
    async def replaced(_: Request, error: ReplacedError) -> Response:
        service.reopen()
        return problem(503, "the index was replaced and the new one is being opened; try again", {"Retry-After": "1"})

    @app.exception_handler(NestedError)
    async def nested(_: Request, error: NestedError) -> Response:
        return problem(400, str(error))

    @app.exception_handler(EigenmapError)
    async def refused(_: Request, error: EigenmapError) -> Response:
        status = error.status if isinstance(error, Refused) else 422
        return problem(status, str(error), {"Retry-After": "1"} if status == 503 else None)

    @app.exception_handler(RequestValidationError)
    async def wrong(_: Request, error: RequestValidationError) -> Response:
        return problem(422, "; ".join([_reason(each) for each in error.errors()][:5]))

    @app.exception_handler(HTTPException)
    async def refused_by_framework(_: Request, error: HTTPException) -> Response:
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))


def _reason(mistake: Mapping[str, Any]) -> str:
    """Return what is wrong with a parameter or field, or with the whole body."""
    place = ".".join(str(part) for part in mistake["loc"][1:])
    if not place or mistake["type"] == "json_invalid":
        return "the body must be a JSON object, sent with Content-Type: application/json"
    return f"{place}: {mistake['msg']}"


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
            raise Refused(404, "this file does not exist")
        return show(name)


def _add_health(app: FastAPI, service: Service) -> None:
    @app.get("/api/health", response_model=schemas.HealthOut, tags=["about"])
    async def health() -> Response:
        """Report that the service is running."""
        return Json({"status": "ok"})

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {}}, "description": "Prometheus text."}},
        tags=["about"],
    )
    async def metrics() -> Response:
        """Report requests, times and queues in Prometheus format."""
        searches = service.searches
        gauges = [
            ("eigenmap_items", "gauge", "Items in the overview.", float(len(service.explorer.overview))),
            ("eigenmap_searches_waiting", "gauge", "Searches in the queue.", float(searches.waiting)),
            ("eigenmap_uploads_waiting", "gauge", "Uploads being read or encoded.", float(service.uploads.taken)),
            ("eigenmap_scans_total", "counter", "Scans of the index, each for one or more searches.", searches.scans),
            ("eigenmap_scan_seconds_total", "counter", "Time spent scanning.", searches.scan_seconds),
        ]
        return Response(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")
