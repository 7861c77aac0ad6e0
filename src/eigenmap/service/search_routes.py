"""Routes for searching and for single items."""

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

DimQuery = Annotated[int | None, Query(ge=1, description="Number of features to compare; default all.")]
TopQuery = Annotated[int, Query(ge=1, le=MOST_RESULTS, description="Number of results.")]
WhereQuery = Annotated[
    list[str], Query(max_length=16, description="Conditions such as label=cat or year>=2020; all must hold.")
]
PicturesQuery = Annotated[bool, Query(description="Attach a small picture to every item.")]
FeaturesQuery = Annotated[Features, Query(description="random: features chosen at random, for comparison.")]


def search_routes(service: Service) -> APIRouter:
    """Return the routes that search by id, vector or upload."""
    app = APIRouter()
    limits = service.limits

    @app.get("/api/search", response_model=schemas.ResultsOut, responses=WRONG | NONE | BUSY | SEARCH, tags=["search"])
    async def search_by_id(
        id: Annotated[str | None, Query(description="Id of the item to search by.")] = None,
        key: Annotated[str | None, Query(max_length=8192, description="Key of the item to search by.")] = None,
        dim: DimQuery = None,
        top: TopQuery = 10,
        features: FeaturesQuery = "ordered",
        pictures: PicturesQuery = False,
        where: WhereQuery = [],  # noqa: B006 - FastAPI copies it
    ) -> Response:
        """Find the items most similar to one in the index."""
        if (id is None) == (key is None):
            raise Refused(422, "give either an id or a key to search by")
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
        """Find the items most similar to one in the index, to a code, or to a vector that is encoded first."""
        given = [request.id, request.key, request.vector, request.input]
        if sum(each is not None for each in given) != 1:
            raise Refused(422, "give exactly one of id, key, vector or input to search by")
        explorer = service.explorer
        how = (request.dim, request.top, request.features, request.where, request.pictures)
        if request.input is not None:
            check_filter(request.where, limits)
            code = await service.others.run(explorer.encode_vector, request.input)
            return Json(await service.search(explorer, code, *how) | {"vector": code})
        query: Asked
        if request.vector is not None:
            if request.model not in (None, explorer.model_name):
                raise Refused(409, "the vector was made by another model; encode its source again")
            query = tuple(request.vector)
        else:
            query = explorer.item_id(str(request.id) if request.id is not None else id_of(request.key or ""))
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
        """Find the items most similar to a picture, sent as a JPEG, PNG, WebP, GIF or BMP file; it is not stored."""
        explorer, conditions = service.explorer, parse(where)
        check_filter(conditions, limits)
        async with service.uploads.taking():
            body = await request.body()
            code = await service.uploads.run_taken(explorer.encode, body, limits.upload_pixels)
        found = await service.search(explorer, code, dim, top, features, conditions, pictures)
        return Json(found | {"vector": code})

    @app.get("/api/items/{key}", response_model=schemas.ItemOut, responses=NONE | WRONG | BUSY, tags=["items"])
    async def item(key: Annotated[str, Path(max_length=8192)], pictures: PicturesQuery = False) -> Response:
        """Return one item and its metadata."""
        explorer = service.explorer
        found = (await service.others.run(explorer.item, explorer.item_id(id_of(key)))).as_json()
        if pictures:
            await service.pictured(explorer, [found])
        return Json(found)

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
        """Return a small picture of an item in the index."""
        explorer = service.explorer
        content = await service.others.run(explorer.picture, explorer.item_id(id_of(key)))
        if content is None:
            raise Refused(404, "this item has no picture")
        return Response(content, media_type=media_type(content), headers={"Cache-Control": "private, max-age=60"})

    return app
