"""Routes that search, and those about single items."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from eigenmap.search.filters import parse
from eigenmap.service import schemas
from eigenmap.service.runtime import BODY, BUSY, NONE, UPLOAD, WRONG, Json, Service
from eigenmap.service.schemas import MOST_RESULTS, SearchRequest
from eigenmap.service.security import UPLOADS
from eigenmap.service.state import Features, id_of
from eigenmap.service.state import Query as Asked
from eigenmap.service.thumbnails import media_type
from eigenmap.service.uploads import Refused, read_body

DimQuery = Annotated[int | None, Query(ge=1, description="Compare so many features; all if left out.")]
TopQuery = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="Results.")]
WhereQuery = Annotated[
    list[str], Query(max_length=16, description="Conditions such as label=cat or year>=2020; all must hold.")
]
PicturesQuery = Annotated[bool, Query(description="Send a small picture along with every item.")]
FeaturesQuery = Annotated[Features, Query(description="random: features taken without regard to their order.")]


def search_routes(service: Service) -> APIRouter:
    """Search by id, by vector, by upload."""
    app = APIRouter()
    explorer, limits = service.explorer, service.limits

    @app.get("/api/search", response_model=schemas.Found, responses=WRONG | NONE | BUSY, tags=["search"])
    async def search_by_id(
        id: Annotated[str | None, Query(description="Of the item to search by.")] = None,
        key: Annotated[str | None, Query(max_length=8192, description="The same as `key`.")] = None,
        dim: DimQuery = None,
        top: TopQuery = 10,
        features: FeaturesQuery = "ordered",
        pictures: PicturesQuery = False,
        where: WhereQuery = [],  # noqa: B006 - FastAPI copies it
    ) -> Response:
        """Items most like one of the index."""
        if (id is None) == (key is None):
            raise Refused(422, "search by an id or by a key: give one of them")
        name = explorer.item_id(id if id is not None else id_of(key or ""))
        return Json(await service.search(name, dim, top, features, parse(where), pictures))

    @app.post("/api/search", response_model=schemas.Found, responses=WRONG | NONE | BUSY | BODY, tags=["search"])
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
        found = await service.search(query, request.dim, request.top, request.features, request.where, request.pictures)
        return Json(found)

    @app.post(
        UPLOADS,
        response_model=schemas.Found,
        responses=WRONG | BUSY | UPLOAD,
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
        pictures: PicturesQuery = False,
        where: WhereQuery = [],  # noqa: B006
    ) -> Response:
        """Items most like a picture: the body is a JPEG, PNG, WebP, GIF or BMP file, which is not kept."""
        async with service.uploads.taking():
            body = await read_body(request.stream(), limits.upload_bytes, limits.upload_seconds)
            code = await service.uploads.run_taken(explorer.encode, body, limits.upload_pixels)
        found = await service.search(code, dim, top, features, parse(where), pictures)
        return Json(found | {"vector": code})

    @app.get("/api/items/{key}", response_model=schemas.ItemOut, responses=NONE | WRONG | BUSY, tags=["items"])
    async def item(key: Annotated[str, Path(max_length=8192)]) -> Response:
        """One item, and what is known of it."""
        async with service.others.taking():
            found = await service.searches.run(explorer.item, explorer.item_id(id_of(key)))
        return Json(found.as_json())

    @app.get(
        "/api/images/{key}",
        response_class=Response,
        responses=NONE
        | WRONG
        | BUSY
        | {200: {"content": {"image/jpeg": {}, "image/png": {}}, "description": "The picture."}},
        tags=["items"],
    )
    async def image(key: Annotated[str, Path(max_length=8192)]) -> Response:
        """The picture of an item, small."""
        content = await service.others.run(explorer.pictures.read, id_of(key))
        if content is None:
            raise Refused(404, "there is no picture of this item")
        return Response(content, media_type=media_type(content), headers={"Cache-Control": "private, max-age=3600"})

    return app
