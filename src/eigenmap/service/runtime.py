"""Shared state of the routes: explorer, threads, queues and response format."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from starlette.responses import JSONResponse

from eigenmap.core.errors import EigenmapError
from eigenmap.service import schemas
from eigenmap.service.explorer import Explorer, Features, Item, Query, SearchParameters
from eigenmap.service.filtering import check_filter
from eigenmap.service.metrics import ServiceMetrics
from eigenmap.service.scheduling import Limits, QueryBatcher, Slots
from eigenmap.service.summary import Summary
from eigenmap.service.thumbnails import media_type
from eigenmap.service.uploads import Refused

_log = logging.getLogger("uvicorn.error")

Responses: TypeAlias = dict[int | str, dict[str, Any]]

PROBLEM: dict[str, Any] = {"model": schemas.ErrorOut}
WRONG: Responses = {422: PROBLEM | {"description": "The request is invalid."}}
NONE: Responses = {404: PROBLEM | {"description": "The item does not exist."}}
BUSY: Responses = {
    429: PROBLEM | {"description": "Too many requests are waiting; see Retry-After."},
    503: PROBLEM | {"description": "The server is busy, stopping or still preparing; see Retry-After."},
}
SEARCH: Responses = {
    400: PROBLEM | {"description": "The body is not JSON, or the filter is nested."},
    504: PROBLEM | {"description": "The search took too long and was stopped."},
}
OTHER_MODEL: Responses = {409: PROBLEM | {"description": "The vector was made by a different model."}}
BODY: Responses = {
    408: PROBLEM | {"description": "The body took too long to arrive."},
    413: PROBLEM | {"description": "Too large."},
}
UPLOAD: Responses = {
    408: PROBLEM | {"description": "The body took too long to arrive."},
    413: PROBLEM | {"description": "Too many bytes or pixels."},
    415: PROBLEM | {"description": "Unsupported picture format."},
    501: PROBLEM | {"description": "The index contains no model."},
}


class Json(JSONResponse):
    """JSON in ASCII, so that file names that are not UTF-8 survive."""

    def render(self, content: Any) -> bytes:
        """Return the content as bytes."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Service:
    """Shared state of the routes.

    Each request uses one `Summary` and its explorer throughout, even if another index replaces them meanwhile, so that
    codes of two models are never compared.
    """

    def __init__(self, explorer: Explorer, limits: Limits) -> None:
        self.limits = limits
        self.summary = Summary(explorer, limits)
        self.metrics = ServiceMetrics()
        self.searches: QueryBatcher[tuple[Explorer, SearchParameters], Query, list[Item]] = QueryBatcher(
            lambda ask, queries: ask[0].answer(ask[1], queries), limits.searches_waiting, limits.searches_at_once
        )
        self.uploads = Slots(1, limits.uploads_waiting, "encode")
        self.others = Slots(2, limits.others_waiting, "read")
        self._background = ThreadPoolExecutor(2, thread_name_prefix="prepare")
        self._reopening: Future[None] | None = None

    @property
    def explorer(self) -> Explorer:
        """Explorer of the current index."""
        return self.summary.explorer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the worker threads while the application runs; accepted requests are answered before they end."""
        self.searches.start()
        self._background.submit(_prepare, self.explorer)
        try:
            yield
        finally:
            self._background.shutdown(wait=False, cancel_futures=True)
            await self.searches.close()
            self.uploads.close()
            self.others.close()

    def reopen(self) -> None:
        """Open the index that replaced this one, in the background and only once."""
        if self._reopening is None or self._reopening.done():
            self._reopening = self._background.submit(self._reopen)

    def _reopen(self) -> None:
        try:
            explorer = self.explorer.again()
            if explorer is not None:
                self.summary = Summary(explorer, self.limits)
                self._background.submit(_prepare, explorer)
        except EigenmapError as error:  # the next request tries again
            _log.warning("The index was replaced, and the new one cannot be opened: %s", error)
        except Exception:
            _log.exception("The index was replaced, and the new one cannot be opened")

    async def search(
        self,
        explorer: Explorer,
        query: Query,
        dim: int | None,
        top: int,
        features: Features,
        where: dict[str, Any] | None,
        pictures: bool,
    ) -> dict[str, Any]:
        """Answer one search."""
        began = time.perf_counter()
        length = _checked_dim(explorer, dim)
        check_filter(where, self.limits)
        ask = SearchParameters(features, length, top, json.dumps(where or {}, sort_keys=True))
        seconds = self.limits.search_seconds
        try:
            found = await asyncio.wait_for(self.searches.ask((explorer, ask), query), seconds)
        except asyncio.TimeoutError:
            raise Refused(504, f"the search took longer than {seconds:g} seconds and was stopped") from None
        items = [item.as_json() for item in found]
        if pictures:
            await self.pictured(explorer, items)
        return {
            "dim": length,
            "features": features,
            "model": explorer.model_name,
            "milliseconds": round(1000 * (time.perf_counter() - began), 3),
            "items": items,
        }

    async def pictured(self, explorer: Explorer, items: Sequence[dict[str, Any]]) -> None:
        """Attach a small picture to every item, which saves one request per item."""
        await self.others.run(_add_pictures, explorer, items)


def _prepare(explorer: Explorer) -> None:
    """Compute random features and quality in the background, where nobody would see an error."""
    try:
        explorer.prepare()
    except EigenmapError as error:
        _log.warning("Random features or the quality by length cannot be shown: %s", error)
    except Exception:
        _log.exception("Random features or the quality by length cannot be shown")


def _add_pictures(explorer: Explorer, items: Sequence[dict[str, Any]]) -> None:
    living = explorer.living(item["id"] for item in items)
    for item in items:
        image = explorer.small.read(str(item["id"])) if item["id"] in living else None
        if image is not None:
            item["picture"] = f"data:{media_type(image)};base64,{base64.b64encode(image).decode('ascii')}"
        elif not explorer.has_large or item["id"] not in living:
            item["picture"] = None  # tells the client not to request one


def _checked_dim(explorer: Explorer, dim: int | None) -> int:
    """Return the length at which codes are cut; None means all features."""
    most = explorer.index.n_components
    if dim is not None and not 1 <= dim <= most:
        raise Refused(422, f"dim must be a whole number from 1 to {most}, not {dim}")
    return dim or most


def check_feature(explorer: Explorer, number: int) -> int:
    """Return a feature of the gallery, counted from 1; raise if it is out of range."""
    most = explorer.overview.features
    if not 1 <= number <= most:
        raise Refused(404, f"the gallery has features 1 to {most}, not {number}")
    return number
