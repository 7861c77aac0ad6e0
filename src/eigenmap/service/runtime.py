"""What the routes share: the explorer, its threads and queues, and the form of answers."""

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
WRONG: Responses = {422: PROBLEM | {"description": "The request makes no sense."}}
NONE: Responses = {404: PROBLEM | {"description": "There is no such item."}}
BUSY: Responses = {
    429: PROBLEM | {"description": "Too much is waiting already; Retry-After says when to come back."},
    503: PROBLEM | {"description": "The server is full, stopping, or still preparing this; see Retry-After."},
}
SEARCH: Responses = {
    400: PROBLEM | {"description": "The body is no JSON, or the filter is nested."},
    504: PROBLEM | {"description": "The search took too long and was given up."},
}
OTHER_MODEL: Responses = {409: PROBLEM | {"description": "The vector is of another model than the index."}}
BODY: Responses = {
    408: PROBLEM | {"description": "The body took too long to arrive."},
    413: PROBLEM | {"description": "Too large."},
}
UPLOAD: Responses = {
    408: PROBLEM | {"description": "The body took too long to arrive."},
    413: PROBLEM | {"description": "Too many bytes or pixels."},
    415: PROBLEM | {"description": "No picture of a format that is read."},
    501: PROBLEM | {"description": "The index has no model in it."},
}


class Json(JSONResponse):
    """ASCII JSON: a file name that is not UTF-8 arrives as it is."""

    def render(self, content: Any) -> bytes:
        """The content as bytes."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Service:
    """What the routes share.

    Everything that one request needs comes from one `Summary` and its explorer: another index may take their place
    meanwhile, and codes of two models are never compared.
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
        """What answers now."""
        return self.summary.explorer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Threads that live as long as the application; what was asked is answered before they end."""
        self.searches.start()
        self._background.submit(self.explorer.prepare)
        try:
            yield
        finally:
            self._background.shutdown(wait=False, cancel_futures=True)
            await self.searches.close()
            self.uploads.close()
            self.others.close()

    def reopen(self) -> None:
        """Another index has taken the place of this one: open it in the background, unless that is under way."""
        if self._reopening is None or self._reopening.done():
            self._reopening = self._background.submit(self._reopen)

    def _reopen(self) -> None:
        try:
            explorer = self.explorer.again()
            if explorer is not None:
                self.summary = Summary(explorer, self.limits)
                self._background.submit(explorer.prepare)
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
        """The answer to one search."""
        began = time.perf_counter()
        length = _checked_dim(explorer, dim)
        check_filter(where, self.limits)
        ask = SearchParameters(features, length, top, json.dumps(where or {}, sort_keys=True))
        seconds = self.limits.search_seconds
        try:
            found = await asyncio.wait_for(self.searches.ask((explorer, ask), query), seconds)
        except asyncio.TimeoutError:
            raise Refused(504, f"the search took longer than {seconds:g} seconds and was given up") from None
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
        """Send a small picture along with every item: one request instead of one each."""
        await self.others.run(_add_pictures, explorer, items)


def _add_pictures(explorer: Explorer, items: Sequence[dict[str, Any]]) -> None:
    living = explorer.living(item["id"] for item in items)
    for item in items:
        image = explorer.small.read(str(item["id"])) if item["id"] in living else None
        if image is not None:
            item["picture"] = f"data:{media_type(image)};base64,{base64.b64encode(image).decode('ascii')}"
        elif not explorer.has_large or item["id"] not in living:
            item["picture"] = None  # there is none to ask for either


def _checked_dim(explorer: Explorer, dim: int | None) -> int:
    """Where codes are cut, all features for None."""
    most = explorer.index.n_components
    if dim is not None and not 1 <= dim <= most:
        raise Refused(422, f"dim must be a whole number from 1 to {most}, not {dim}")
    return dim or most


def check_feature(explorer: Explorer, number: int) -> int:
    """A feature of the gallery, counted from 1."""
    most = explorer.overview.features
    if not 1 <= number <= most:
        raise Refused(404, f"there is no feature {number} in the gallery; it has 1 to {most}")
    return number
