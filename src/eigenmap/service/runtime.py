"""What the routes share: the explorer, its threads and queues, and the form of answers."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from starlette.responses import JSONResponse

from eigenmap.search.filters import conditions
from eigenmap.service import schemas
from eigenmap.service.metrics import Metrics
from eigenmap.service.state import Ask, Explorer, Features, Item, Query
from eigenmap.service.thumbnails import media_type
from eigenmap.service.uploads import Refused
from eigenmap.service.work import Batches, Limits, Slots

Responses: TypeAlias = dict[int | str, dict[str, Any]]

PROBLEM: dict[str, Any] = {"model": schemas.Problem}
WRONG: Responses = {422: PROBLEM | {"description": "The request makes no sense."}}
NONE: Responses = {404: PROBLEM | {"description": "There is no such item."}}
BUSY: Responses = {
    429: PROBLEM | {"description": "Too much is waiting already; Retry-After says when to come back."},
    503: PROBLEM | {"description": "The server is full, or still preparing this; see Retry-After."},
}
BODY: Responses = {
    400: PROBLEM | {"description": "The body is no JSON."},
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
    """What the routes share."""

    def __init__(self, explorer: Explorer, limits: Limits) -> None:
        self.explorer = explorer
        self.limits = limits
        self.metrics = Metrics()
        self.searches: Batches[Ask, Query, list[Item]] = Batches(
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
        self,
        query: Query,
        dim: int | None,
        top: int,
        features: Features,
        where: dict[str, Any] | None,
        pictures: bool,
    ) -> dict[str, Any]:
        """The answer to one search."""
        began = time.perf_counter()
        length = self.check_dim(dim)
        conditions(where)  # a filter that makes no sense is refused before it waits
        ask = Ask(features, length, top, json.dumps(where or {}, sort_keys=True))
        items = [item.as_json() for item in await self.searches.ask(ask, query)]
        if pictures:
            await self.pictured(items)
        return {
            "dim": length,
            "features": features,
            "milliseconds": round(1000 * (time.perf_counter() - began), 3),
            "items": items,
        }

    def numbered(self, numbers: Sequence[int], feature: int = 1) -> list[dict[str, Any]]:
        """Items of the overview, and what they have of a feature."""
        view = self.explorer.overview
        values = view.values(numbers, feature)
        return [Item(view.ids[n], view.metadata[n], value).as_json() for n, value in zip(numbers, values, strict=True)]

    async def pictured(self, items: Sequence[dict[str, Any]]) -> None:
        """Send a small picture along with every item: one request instead of one each."""
        await self.others.run(self._add_pictures, items)

    def _add_pictures(self, items: Sequence[dict[str, Any]]) -> None:
        for item in items:
            image = self.explorer.small.read(str(item["id"]))
            if image is None:
                if not self.explorer.has_large:
                    item["picture"] = None  # there is none to ask for either
            else:
                item["picture"] = f"data:{media_type(image)};base64,{base64.b64encode(image).decode('ascii')}"

    def check_feature(self, number: int) -> int:
        """A feature of the gallery, counted from 1."""
        most = self.explorer.overview.features
        if not 1 <= number <= most:
            raise Refused(404, f"there is no feature {number} in the gallery; it has 1 to {most}")
        return number
