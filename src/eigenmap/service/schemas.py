"""Schemas of API requests and responses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_RESULTS = 200
MOST_NUMBERS = 256
LONGEST_VECTOR = 65_536

Value = str | int | float | bool | None
Number = Annotated[float, Field(allow_inf_nan=False)]


class ErrorOut(BaseModel):
    """Reason for refusing a request."""

    detail: str


class ItemOut(BaseModel):
    """One item of the index."""

    id: str | int
    key: str = Field(description="The id encoded for use in a URL; /api/images/KEY is its picture.")
    score: float = Field(description="Cosine similarity to the query, or the item's value of a feature.")
    metadata: dict[str, Value]
    picture: str | None = Field(None, description="A small picture as a data: URL, if requested and available.")


class ResultsOut(BaseModel):
    """Search results, best first, without the query item itself."""

    dim: int
    features: Literal["ordered", "random"]
    model: str | None = Field(description="The model whose codes were compared, as in /api/about.")
    milliseconds: float = Field(description="Time from request to answer, including waiting.")
    items: list[ItemOut]
    vector: list[float] | None = Field(None, description="The code of an uploaded picture or of an input vector.")


class SearchRequest(BaseModel):
    """A search by exactly one of id, key, vector (a code) or input (a vector to be encoded)."""

    model_config = ConfigDict(extra="forbid")

    id: str | int | None = None
    key: str | None = Field(None, max_length=8192)
    vector: list[Number] | None = Field(None, max_length=LONGEST_VECTOR)
    input: list[Number] | None = Field(
        None,
        min_length=1,
        max_length=LONGEST_VECTOR,
        description="A vector like those that were indexed, from which the model of the index makes the code.",
    )
    model: str | None = Field(
        None, max_length=64, description="Model that made the vector; 409 if the index has a different one by now."
    )
    dim: int | None = Field(None, ge=1, description="Number of features to compare; default all.")
    top: int = Field(10, ge=1, le=MOST_RESULTS)
    features: Literal["ordered", "random"] = Field(
        "ordered", description="random: the same number of features chosen at random, for comparison."
    )
    pictures: bool = Field(False, description="Attach a small picture to every item.")
    where: dict[str, Any] | None = Field(
        None, description='A filter on metadata, such as {"label": "cat", "year": {">=": 2020}}.'
    )


class LengthOut(BaseModel):
    """Cost of a code cut at `dim`."""

    dim: int
    bytes_per_item: int
    total_bytes: int
    eigenvalue: float | None = Field(description="Eigenvalue of the last feature kept.")


class IndexOut(BaseModel):
    """Description of the index and the queries it supports."""

    name: str
    items: int
    n_components: int
    metric: str
    precision: str
    model: str | None = Field(description="Name of the model that made the codes; vectors must come from it.")
    overview_items: int = Field(description="Items in gallery and map: all, or a sample of a very large index.")
    gallery_features: int
    eigenvalues: list[float] | None
    bytes_per_item: list[int] = Field(description="Bytes per item at every length, starting at 1.")
    suggested_dims: dict[str, int] = Field(description="Shortest length that keeps each share of the neighbours.")
    opening_dim: int = Field(description="Length at which the page opens.")
    opening: str = Field(description="Key of the item that the page searches by when it opens.")
    fields: dict[str, list[Value]] = Field(description="Metadata fields, with their values if there are few.")
    classes: list[str]
    large_pictures: bool = Field(description="Whether /api/images has larger pictures than the attached ones.")
    can_encode: bool = Field(description="Whether searching by picture is possible.")
    vector_length: int | None = Field(description="Length of a vector to search by as `input`; null if not possible.")
    texts: bool = Field(description="Whether items have a title or text to show but no pictures.")
    upload_bytes: int
    upload_pixels: int
    version: str


class QualityOut(BaseModel):
    """mAP by length on labelled items of this index."""

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
    counts: list[int] = Field(description="Number of items in equal steps from low to high.")
    most: list[ItemOut]
    least: list[ItemOut]


class PageOut(BaseModel):
    """One page of the collection, sorted by one feature."""

    total: int
    offset: int
    items: list[ItemOut]


class MapOut(BaseModel):
    """Positions of items on two features: uint16 x, y pairs, little-endian, base64; item numbers start at 0."""

    x: int
    y: int
    x_range: list[float] = Field(min_length=2, max_length=2)
    y_range: list[float] = Field(min_length=2, max_length=2)
    count: int
    points: str
    classes: str | None = Field(description="One byte per item: position of its label in `classes`, or 255.")


class ItemsOut(BaseModel):
    """A list of items."""

    items: list[ItemOut]


class HealthOut(BaseModel):
    """State of the service."""

    status: Literal["ok"]
