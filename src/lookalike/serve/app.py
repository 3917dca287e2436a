"""The web application: the page, and the REST API that it uses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Annotated, Any, TypeVar

import jinja2
from fastapi import FastAPI, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from lookalike.data.image_bytes import to_jpeg
from lookalike.data.image_io import open_image
from lookalike.errors import DataError
from lookalike.search.catalog import StoredFile, box_of
from lookalike.search.image_search import SearchOptions, readable, search_vectors
from lookalike.search.index import ImageIndex
from lookalike.serve.batching import Batcher
from lookalike.serve.guard import Guard
from lookalike.serve.problems import Problem, ProblemError, add_handlers, declared
from lookalike.serve.schemas import HealthAnswer, ItemAnswer, ItemsAnswer, ModelAnswer, SearchAnswer
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store
from lookalike.serve.uploads import Decoder, read_upload

T = TypeVar("T")
LARGEST_ID = 2**63 - 1
MOST_HITS = 1000
IMAGE_SIDES = (64, 1600)
STATIC = {"page.css": "text/css", "page.js": "text/javascript"}

Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Where = Annotated[
    str | None, Query(max_length=2000, description='a filter, such as "year >= 2020 and label in (a, b)"')
]
K = Annotated[int, Query(ge=1, le=100, description="hits per page")]
Offset = Annotated[int, Query(ge=0, le=MOST_HITS, description="hits to skip")]
Threshold = Annotated[
    float | None, Query(ge=-1, le=1, description="similarity from which on a hit is of the query's class")
]
Hide = Annotated[bool, Query(description="leave out what is below the threshold")]
Collapse = Annotated[
    float | None, Query(ge=-1, le=1, description="show images at least so similar to each other once")
]
QueryId = Annotated[
    int | None, Query(ge=1, le=LARGEST_ID, description="an image of the index to search from, without a body")
]

UPLOAD = {
    "requestBody": {
        "required": False,
        "content": {
            **{
                kind: {"schema": {"type": "string", "format": "binary"}}
                for kind in ("application/octet-stream", "image/jpeg", "image/png", "image/webp")
            },
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"image": {"type": "string", "format": "binary"}}}
            },
        },
    }
}


def create_app(store: Store, settings: ServeSettings) -> FastAPI:
    """The application over an open index."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.batcher = Batcher(
            lambda images: store.encoder.encode(images),
            max_images=settings.batch_images,
            max_seconds=settings.batch_seconds,
        )
        app.state.decoder = Decoder(lambda image: store.encoder.prepare(image), settings)
        app.state.waiting = 0
        app.state.batcher.start()
        try:
            yield
        finally:
            await app.state.batcher.stop()
            app.state.decoder.stop()

    app = FastAPI(
        title="lookalike",
        summary="Search an index of images by image.",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(Guard, settings=settings)
    add_handlers(app)
    _add_page(app, store)
    _add_search(app, store, settings)
    _add_items(app, store)
    _add_facts(app, store)
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        document["components"]["schemas"]["Problem"] = Problem.model_json_schema()
        return document

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _add_page(app: FastAPI, store: Store) -> None:
    folder = files("lookalike.serve")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        (folder / "templates" / "page.html").read_text(encoding="utf-8")
    )
    texts = {name: (folder / "static" / name).read_text(encoding="utf-8") for name in STATIC}

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        index = await asyncio.to_thread(store.current)
        threshold = index.facts.threshold
        content = template.render(
            images=await asyncio.to_thread(store.count),
            threshold=None if threshold is None else threshold["similarity"],
            columns=sorted(await asyncio.to_thread(_columns, index)),
        )
        return HTMLResponse(content)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in STATIC:
            raise ProblemError(404, "no such file")
        return Response(texts[name], media_type=STATIC[name])


def _add_search(app: FastAPI, store: Store, settings: ServeSettings) -> None:
    async def answer(
        request: Request,
        item: int | None,
        options: SearchOptions,
        offset: int,
    ) -> SearchAnswer:
        async with _place(request.app, settings):
            content = b"" if request.method == "GET" else await read_upload(request, settings)
            if (item is None) == (not content):
                raise ProblemError(400, "send an image, or name one of the index by id; not both")
            if item is not None:
                vector = await asyncio.to_thread(lambda: _vector(store.current(), item))
            else:
                vector = await request.app.state.batcher.submit(
                    await request.app.state.decoder.decode(content)
                )
            return await asyncio.to_thread(_search, store, vector, item, options, offset)

    @app.post("/api/search", responses=declared(404, 408, 413, 415, 503), openapi_extra=UPLOAD)
    async def search(
        request: Request,
        id: QueryId = None,
        k: K = 20,
        offset: Offset = 0,
        where: Where = None,
        threshold: Threshold = None,
        hide_unknown: Hide = False,
        collapse: Collapse = None,
    ) -> SearchAnswer:
        """The images most similar to an uploaded image (the body, or a form's first file) or to image `id`."""
        options = SearchOptions(k + offset, where, threshold, hide_unknown, collapse)
        return await answer(request, id, options, offset)

    @app.get("/api/search", responses=declared(404, 503))
    async def search_by_id(
        request: Request,
        id: Annotated[int, Query(ge=1, le=LARGEST_ID, description="an image of the index to search from")],
        k: K = 20,
        offset: Offset = 0,
        where: Where = None,
        threshold: Threshold = None,
        hide_unknown: Hide = False,
        collapse: Collapse = None,
    ) -> SearchAnswer:
        """The images most similar to image `id` of the index."""
        options = SearchOptions(k + offset, where, threshold, hide_unknown, collapse)
        return await answer(request, id, options, offset)


def _add_items(app: FastAPI, store: Store) -> None:
    @app.get("/api/items", responses=declared())
    async def items(
        where: Where = None,
        after: Annotated[int, Query(ge=0, le=LARGEST_ID, description="id before the page")] = 0,
        count: Annotated[int, Query(ge=1, le=500, description="images per page")] = 50,
    ) -> ItemsAnswer:
        """The images of the index, in the order of their ids."""
        return await asyncio.to_thread(lambda: _items(store.current(), where, after, count))

    @app.get("/api/items/{id}", responses=declared(404))
    async def item(id: Id) -> ItemAnswer:
        """One image of the index."""
        return _item(await asyncio.to_thread(lambda: _files(store.current(), id)))

    @app.get(
        "/api/items/{id}/image",
        response_class=Response,
        responses={
            200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
            **declared(404),
        },
    )
    async def image(
        id: Id, side: Annotated[int, Query(ge=IMAGE_SIDES[0], le=IMAGE_SIDES[1])] = 320
    ) -> Response:
        """An image of the index as a JPEG without metadata, its longest side at most `side` pixels."""
        stored = await asyncio.to_thread(lambda: _files(store.current(), id))
        content = await asyncio.to_thread(_jpeg, stored, side)
        return Response(content, media_type="image/jpeg", headers={"Cache-Control": "private, max-age=3600"})


def _add_facts(app: FastAPI, store: Store) -> None:
    @app.get("/api/health", responses=declared())
    async def health() -> HealthAnswer:
        """Whether the server works, and how many images it searches."""
        return HealthAnswer(status="ok", images=await asyncio.to_thread(store.count))

    @app.get("/api/model", responses=declared())
    async def model() -> ModelAnswer:
        """What the index is: model, engine, filters, threshold, measured recall."""
        index = await asyncio.to_thread(store.current)
        facts = index.facts
        return ModelAnswer(
            fingerprint=facts.fingerprint,
            dim=facts.dim,
            image_size=store.encoder.transform.preprocessing.size,
            engine=facts.engine,
            images=await asyncio.to_thread(store.count),
            columns=await asyncio.to_thread(_columns, index),
            threshold=facts.threshold,
            check=facts.check,
        )


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


def _search(store: Store, vector: Any, item: int | None, options: SearchOptions, offset: int) -> SearchAnswer:
    (found,) = search_vectors(
        store.current(),
        ["query"],
        vector[None],
        options,
        fingerprint=store.encoder.fingerprint,
        leave_out=[item],
    )
    hits = [hit.to_dict() for hit in found.hits]
    more = len(hits) == options.k and len(hits) < MOST_HITS
    return SearchAnswer(
        unknown=found.unknown,
        threshold=found.threshold,
        hits=hits[offset:],
        next_offset=len(hits) if more else None,
    )


def _locked(index: ImageIndex, question: Callable[[ImageIndex], T]) -> T:
    """An answer from the catalog, which one thread at a time may use."""
    with index.turn:
        return question(index)


def _vector(index: ImageIndex, item: int) -> Any:
    _files(index, item)
    return index.vectors([item])[0]


def _files(index: ImageIndex, item: int) -> list[StoredFile]:
    found = index.files([item]).get(item)
    if not found:
        raise ProblemError(404, f"the index has no image {item}")
    return found


def _columns(index: ImageIndex) -> dict[str, str]:
    columns = _locked(index, lambda own: own.catalog.columns())
    return {name: column.kind for name, column in columns.items()}


def _items(index: ImageIndex, where: str | None, after: int, count: int) -> ItemsAnswer:
    def page(own: ImageIndex) -> tuple[list[int], dict[int, list[StoredFile]]]:
        condition = own.catalog.where(where)
        ids = own.catalog.page(condition, after, count)
        return ids, own.catalog.files_of(ids, condition)

    ids, stored = _locked(index, page)
    following = ids[-1] if len(ids) == count else None
    return ItemsAnswer(items=[_item(stored[item]) for item in ids], next_after=following)


def _item(stored: list[StoredFile]) -> ItemAnswer:
    first, *others = stored
    return ItemAnswer(
        id=first.item,
        path=readable(first.file.path),
        label=first.file.label,
        copies=[readable(other.file.path) for other in others],
        columns=dict(first.file.values),
        missing=not (first.root / box_of(first.file.path)[0]).exists(),
    )


def _jpeg(stored: list[StoredFile], side: int) -> bytes:
    """The first of an image's files that can be opened."""
    for one in stored:
        path, box = box_of(one.file.path)
        try:
            return to_jpeg(open_image(one.root / path, at_least=(side, side), box=box), side)
        except (DataError, OSError):
            continue
    raise ProblemError(404, "the file of this image is not there any more; bring the index up to date")
