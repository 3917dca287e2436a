"""`/api/search`: from an uploaded image, or an image of the index, to the most similar ones."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.concurrency import contextmanager_in_threadpool

from lookalike.search.engines import NoVectorError
from lookalike.search.image_search import SearchOptions, search_vectors
from lookalike.search.index import ImageIndex
from lookalike.serve.item_routes import files_of, no_image
from lookalike.serve.parameters import (
    MOST_HITS,
    UPLOAD,
    Collapse,
    Hide,
    K,
    Offset,
    OptionalQueryId,
    QueryId,
    Threshold,
    Where,
)
from lookalike.serve.problems import ProblemError, declared
from lookalike.serve.schemas import SearchAnswer
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Served, Store
from lookalike.serve.uploads import read_upload


@dataclass(frozen=True)
class Page:
    """A part of the hits: those after the first `offset`."""

    options: SearchOptions
    offset: int


def page_of(
    k: K = 20,
    offset: Offset = 0,
    where: Where = None,
    threshold: Threshold = None,
    hide_unknown: Hide = False,
    collapse: Collapse = None,
) -> Page:
    """What the parameters of a request ask for."""
    return Page(SearchOptions(k + offset, where, threshold, hide_unknown, collapse), offset)


Asked = Annotated[Page, Depends(page_of)]


def add_search(app: FastAPI, store: Store, settings: ServeSettings) -> None:
    """Adds the routes that search."""

    async def answer(request: Request, item: int | None, page: Page) -> SearchAnswer:
        async with _place(request.app, settings):
            content = b"" if request.method == "GET" else await read_upload(request, settings)
            if (item is None) == (not content):
                raise ProblemError(400, "send an image, or name one of the index by id; not both")
            async with contextmanager_in_threadpool(store.using()) as served:
                if item is not None:
                    vector = await asyncio.to_thread(_vector, served.index, item)
                else:
                    encoder, state = served.encoder, request.app.state
                    tensor = await state.decoder.decode(content, encoder.prepare)
                    vector = await state.batcher.submit(encoder.encode, tensor)
                return await asyncio.to_thread(_search, served, vector, item, page)

    @app.post("/api/search", responses=declared(404, 408, 413, 415), openapi_extra=UPLOAD)
    async def search(request: Request, page: Asked, id: OptionalQueryId = None) -> SearchAnswer:
        """The images most similar to an uploaded image (the body, or a form's only file) or to image `id`."""
        return await answer(request, id, page)

    @app.get("/api/search", responses=declared(404))
    async def search_by_id(request: Request, page: Asked, id: QueryId) -> SearchAnswer:
        """The images most similar to image `id` of the index."""
        return await answer(request, id, page)


@contextlib.asynccontextmanager
async def _place(app: FastAPI, settings: ServeSettings) -> AsyncIterator[None]:
    """One of the searches under way."""
    if app.state.waiting >= settings.max_waiting:
        raise ProblemError(503, "too many searches at a time; try again", headers={"Retry-After": "1"})
    app.state.waiting += 1
    try:
        yield
    finally:
        app.state.waiting -= 1


def _search(served: Served, vector: Any, item: int | None, page: Page) -> SearchAnswer:
    (found,) = search_vectors(
        served.index,
        ["query"],
        vector[None],
        page.options,
        fingerprint=served.encoder.fingerprint,
        leave_out=[item],
    )
    hits = [hit.to_dict() for hit in found.hits]
    more = len(hits) == page.options.k and len(hits) < MOST_HITS
    return SearchAnswer(
        unknown=found.unknown,
        threshold=found.threshold,
        hits=hits[page.offset :],
        next_offset=len(hits) if more else None,
    )


def _vector(index: ImageIndex, item: int) -> Any:
    files_of(index, item)
    try:
        return index.vectors([item])[0]
    except NoVectorError:
        raise no_image(item) from None  # another process has just removed it
