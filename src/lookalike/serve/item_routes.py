"""`/api/items`: what the index holds, and its images, encoded again."""

from fastapi import FastAPI, Request
from fastapi.responses import Response

from lookalike.data.image_bytes import to_jpeg
from lookalike.data.image_io import open_image
from lookalike.errors import DataError
from lookalike.search.files import StoredFile, box_of, item_facts
from lookalike.search.index import ImageIndex
from lookalike.serve.parameters import After, Count, Id, Side, Where
from lookalike.serve.problems import ProblemError, declared
from lookalike.serve.schemas import ItemAnswer, ItemsAnswer
from lookalike.serve.store import Store


def add_items(app: FastAPI, store: Store) -> None:
    """Adds the routes that show what the index holds."""

    @app.get("/api/items", responses=declared())
    def items(where: Where = None, after: After = 0, count: Count = 50) -> ItemsAnswer:
        """The images of the index, in the order of their ids."""
        with store.using() as served:
            return _items(served.index, where, after, count)

    @app.get("/api/items/{id}", responses=declared(404))
    def item(id: Id) -> ItemAnswer:
        """One image of the index."""
        with store.using() as served:
            return ItemAnswer(**item_facts(files_of(served.index, id)))

    @app.get(
        "/api/items/{id}/image",
        response_class=Response,
        responses={
            200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}},
            304: {"description": "Not Modified"},
            **declared(404),
        },
    )
    def image(request: Request, id: Id, side: Side = 320) -> Response:
        """An image of the index as a JPEG without metadata, its longest side at most `side` pixels."""
        with store.using() as served:
            stored, name = files_of(served.index, id), served.index.facts.name
        # an id always means the same content, in its index: one that takes its place counts from 1 again
        headers = {"Cache-Control": "private, no-cache", "ETag": f'"{name}-{id}-{side}"'}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(_jpeg(stored, side), media_type="image/jpeg", headers=headers)


def files_of(index: ImageIndex, item: int) -> list[StoredFile]:
    """The files of an image of the index; a problem document if there is none."""
    found = index.files([item]).get(item)
    if not found:
        raise no_image(item)
    return found


def no_image(item: int) -> ProblemError:
    """What an id is answered that is not in the index."""
    return ProblemError(404, f"the index has no image {item}")


def _items(index: ImageIndex, where: str | None, after: int, count: int) -> ItemsAnswer:
    with index.reading():
        condition = index.catalog.where(where)
        ids = index.catalog.page(condition, after, count)
        stored = index.catalog.files_of(ids, condition)
    following = ids[-1] if len(ids) == count else None
    return ItemsAnswer(items=[ItemAnswer(**item_facts(stored[item])) for item in ids], next_after=following)


def _jpeg(stored: list[StoredFile], side: int) -> bytes:
    """The first of an image's files that can be opened."""
    for one in stored:
        path, box = box_of(one.file.path)
        try:
            return to_jpeg(open_image(one.root / path, at_least=(side, side), box=box), side)
        except (DataError, OSError):
            continue
    raise ProblemError(404, "the file of this image cannot be opened any more; bring the index up to date")
