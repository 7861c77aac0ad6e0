"""Routes that search, and those about single items."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from eigenmap.search.filters import parse
from eigenmap.service import schemas
from eigenmap.service.explorer import Features, id_of
from eigenmap.service.explorer import Query as Asked
from eigenmap.service.filtering import check_filter
from eigenmap.service.runtime import BODY, BUSY, NONE, OTHER_MODEL, SEARCH, UPLOAD, WRONG, Json, Service
from eigenmap.service.schemas import MOST_RESULTS, SearchRequest
from eigenmap.service.security import UPLOADS
from eigenmap.service.thumbnails import media_type
from eigenmap.service.uploads import Refused

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
    limits = service.limits

    @app.get("/api/search", response_model=schemas.ResultsOut, responses=WRONG | NONE | BUSY | SEARCH, tags=["search"])
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
        explorer = service.explorer
        name = explorer.item_id(id if id is not None else id_of(key or ""))
        return Json(await service.search(explorer, name, dim, top, features, parse(where), pictures))

    @app.post(
        "/api/search",
        response_model=schemas.ResultsOut,
        responses=WRONG | NONE | BUSY | BODY | SEARCH | OTHER_MODEL,
        tags=["search"],
    )
    async def search(request: SearchRequest) -> Response:
        """Items most like one of the index, or like a code."""
        given = [request.id is not None, request.key is not None, request.vector is not None]
        if sum(given) != 1:
            raise Refused(422, "search by an id, a key or a vector: give one of them")
        explorer = service.explorer
        query: Asked
        if request.vector is not None:
            if request.model not in (None, explorer.model_name):
                raise Refused(409, "the vector is of another model than the index; encode what it stands for again")
            query = tuple(request.vector)
        else:
            query = explorer.item_id(str(request.id) if request.id is not None else id_of(request.key or ""))
        how = (request.dim, request.top, request.features, request.where, request.pictures)
        return Json(await service.search(explorer, query, *how))

    @app.post(
        UPLOADS,
        response_model=schemas.ResultsOut,
        responses=WRONG | BUSY | SEARCH | UPLOAD,
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
        explorer, conditions = service.explorer, parse(where)
        check_filter(conditions, limits)
        async with service.uploads.taking():
            body = await request.body()
            code = await service.uploads.run_taken(explorer.encode, body, limits.upload_pixels)
        found = await service.search(explorer, code, dim, top, features, conditions, pictures)
        return Json(found | {"vector": code})

    @app.get("/api/items/{key}", response_model=schemas.ItemOut, responses=NONE | WRONG | BUSY, tags=["items"])
    async def item(key: Annotated[str, Path(max_length=8192)]) -> Response:
        """One item, and what is known of it."""
        explorer = service.explorer
        found = await service.others.run(explorer.item, explorer.item_id(id_of(key)))
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
        """The picture of an item of the index, small."""
        explorer = service.explorer
        content = await service.others.run(explorer.picture, explorer.item_id(id_of(key)))
        if content is None:
            raise Refused(404, "there is no picture of this item")
        return Response(content, media_type=media_type(content), headers={"Cache-Control": "private, max-age=60"})

    return app
