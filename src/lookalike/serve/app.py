"""The web application: the page, and the REST API that it uses."""

import contextlib
from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any

import jinja2
from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, Response

from lookalike.search.index import ImageIndex
from lookalike.search.where import written
from lookalike.serve.batching import Batcher
from lookalike.serve.guard import Guard
from lookalike.serve.item_routes import add_items
from lookalike.serve.parameters import refuse_unknown_parameters
from lookalike.serve.problems import Problem, ProblemError, add_handlers, declared
from lookalike.serve.schemas import HealthAnswer, ModelAnswer
from lookalike.serve.search_routes import add_search
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store
from lookalike.serve.uploads import Decoder

STATIC = {"page.css": "text/css", "page.js": "text/javascript"}


def create_app(store: Store, settings: ServeSettings) -> FastAPI:
    """The application over an open index."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.batcher = Batcher(max_images=settings.batch_images, max_seconds=settings.batch_seconds)
        app.state.decoder = Decoder(settings)
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
        redirect_slashes=False,
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.add_middleware(Guard, settings=settings)
    add_handlers(app)
    _add_page(app, store)
    add_search(app, store, settings)
    add_items(app, store)
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
    def page() -> HTMLResponse:
        with store.using() as served:
            index = served.index
            threshold = index.facts.threshold
            content = template.render(
                images=len(index),
                threshold=None if threshold is None else threshold["similarity"],
                columns=sorted(map(written, _columns(index))),
            )
        return HTMLResponse(content)

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        if name not in STATIC:
            raise ProblemError(404, "no such file")
        return Response(texts[name], media_type=STATIC[name])


def _add_facts(app: FastAPI, store: Store) -> None:
    @app.get("/api/health", responses=declared())
    def health() -> HealthAnswer:
        """Whether the server works, and how many images it searches."""
        with store.using() as served:
            return HealthAnswer(status="ok", images=len(served.index))

    @app.get("/api/model", responses=declared())
    def model() -> ModelAnswer:
        """What the index is: model, engine, filters, threshold, measured recall."""
        with store.using() as served:
            facts = served.index.facts
            return ModelAnswer(
                fingerprint=facts.fingerprint,
                dim=facts.dim,
                image_size=served.encoder.transform.preprocessing.size,
                engine=facts.engine,
                images=len(served.index),
                columns=_columns(served.index),
                threshold=facts.threshold,
                check=facts.check,
            )


def _columns(index: ImageIndex) -> dict[str, str]:
    """What filters may name, and whether it holds numbers or text."""
    with index.reading():
        return {name: column.kind for name, column in index.catalog.columns().items()}
