"""What requests and answers of the API look like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_RESULTS = 200
MOST_NUMBERS = 256
LONGEST_VECTOR = 65_536

Value = str | int | float | bool | None
Number = Annotated[float, Field(allow_inf_nan=False)]


class ErrorOut(BaseModel):
    """Why a request was not answered."""

    detail: str


class ItemOut(BaseModel):
    """One item of the index."""

    id: str | int
    key: str = Field(description="The id as a word that a URL can hold; /api/images/KEY is its picture.")
    score: float = Field(description="Cosine to the query, or what the item has of a feature.")
    metadata: dict[str, Value]
    picture: str | None = Field(None, description="A small picture as a data: URL, if asked for and there is one.")


class ResultsOut(BaseModel):
    """Results of a search, the best first; the item that was searched by is left out."""

    dim: int
    features: Literal["ordered", "random"]
    model: str | None = Field(description="The model whose codes were compared, as in /api/about.")
    milliseconds: float = Field(description="From the request's arrival to its answer, waiting included.")
    items: list[ItemOut]
    vector: list[float] | None = Field(None, description="The code of an uploaded picture.")


class SearchRequest(BaseModel):
    """A search by exactly one of an id, a key and a vector."""

    model_config = ConfigDict(extra="forbid")

    id: str | int | None = None
    key: str | None = Field(None, max_length=8192)
    vector: list[Number] | None = Field(None, max_length=LONGEST_VECTOR)
    model: str | None = Field(
        None, max_length=64, description="Of the answer that the vector came with; 409 if the index is of another now."
    )
    dim: int | None = Field(None, ge=1, description="Compare so many features; all if left out.")
    top: int = Field(10, ge=1, le=MOST_RESULTS)
    features: Literal["ordered", "random"] = Field(
        "ordered", description="random: as many features taken without regard to their order, to compare."
    )
    pictures: bool = Field(False, description="Send a small picture along with every item.")
    where: dict[str, Any] | None = Field(
        None, description='A filter on metadata, such as {"label": "cat", "year": {">=": 2020}}.'
    )


class LengthOut(BaseModel):
    """What a code costs when it is cut at `dim`."""

    dim: int
    bytes_per_item: int
    total_bytes: int
    eigenvalue: float | None = Field(description="Of the last feature that is kept.")


class IndexOut(BaseModel):
    """The index and what can be asked of it."""

    name: str
    items: int
    n_components: int
    metric: str
    precision: str
    model: str | None = Field(description="A name of the model that made the codes; vectors belong to it.")
    overview_items: int = Field(description="Items in gallery and map: all, or a sample of very many.")
    gallery_features: int
    eigenvalues: list[float] | None
    bytes_per_item: list[int] = Field(description="At every length from 1 on.")
    suggested_dims: dict[str, int] = Field(description="The shortest code that keeps so much of the neighbours.")
    fields: dict[str, list[Value]] = Field(description="Metadata, and their values where there are few.")
    classes: list[str]
    large_pictures: bool = Field(description="Whether /api/images has larger pictures than those sent along.")
    can_encode: bool = Field(description="Whether a picture can be searched by.")
    upload_bytes: int
    upload_pixels: int
    version: str


class QualityOut(BaseModel):
    """mAP against length, on labelled items of this index."""

    state: Literal["ready", "computing", "unlabelled"]
    metric: str
    dims: list[int] = []
    ordered: list[float] = []
    random: list[float] = []
    queries: int = 0
    gallery: int = 0


class FeatureOut(BaseModel):
    """One eigenfunction of the gallery."""

    number: int
    eigenvalue: float | None
    low: float
    high: float
    counts: list[int] = Field(description="Items in equal steps from low to high.")
    most: list[ItemOut]
    least: list[ItemOut]


class PageOut(BaseModel):
    """A stretch of the collection, sorted by one feature."""

    total: int
    offset: int
    items: list[ItemOut]


class MapOut(BaseModel):
    """Places of items by two features: uint16 x, y pairs, little-endian, base64; item numbers count from 0."""

    x: int
    y: int
    x_range: list[float] = Field(min_length=2, max_length=2)
    y_range: list[float] = Field(min_length=2, max_length=2)
    count: int
    points: str
    classes: str | None = Field(description="A byte an item: its label's place in `classes` of /api/about, or 255.")


class ItemsOut(BaseModel):
    """Some items."""

    items: list[ItemOut]


class HealthOut(BaseModel):
    """The service lives."""

    status: Literal["ok"]
