"""What the REST API answers."""

from typing import Any

from pydantic import BaseModel, Field


class ItemAnswer(BaseModel):
    """An image of the index."""

    id: int = Field(description="stays the same when files are moved; never given to another image")
    path: str
    label: str
    copies: list[str] = Field(description="paths of identical files")
    columns: dict[str, Any] = Field(description="of the user's table")
    missing: bool = Field(description="whether the file is not there any more")


class HitAnswer(ItemAnswer):
    """An image that is similar to the query."""

    similarity: float = Field(ge=-1, le=1, description="cosine")
    same_class: bool | None = Field(
        description="whether the similarity reaches the threshold; null without one"
    )


class SearchAnswer(BaseModel):
    """The most similar images, most similar first."""

    unknown: bool = Field(description="whether nothing reaches the threshold")
    threshold: float | None
    hits: list[HitAnswer]
    next_offset: int | None = Field(description="of the next page; null after the last hit")


class ItemsAnswer(BaseModel):
    """A page of the index's images."""

    items: list[ItemAnswer]
    next_after: int | None = Field(description="`after` of the next page; null after the last one")


class HealthAnswer(BaseModel):
    """That the server works."""

    status: str
    images: int


class ModelAnswer(BaseModel):
    """What the index is."""

    fingerprint: str
    dim: int
    image_size: int
    engine: str
    images: int
    columns: dict[str, str] = Field(description="what filters may name: number or text")
    threshold: dict[str, Any] | None = Field(description="as `lookalike calibrate` left it")
    check: dict[str, Any] | None = Field(
        description="recall and rate, as `lookalike index check` measured them"
    )
