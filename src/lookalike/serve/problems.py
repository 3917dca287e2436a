"""Errors as problem documents (RFC 9457), in answers and in the OpenAPI document."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from lookalike.errors import FileError, LookalikeError, first_line

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What went wrong."""

    type: str = "about:blank"
    title: str = Field(description="the name of the status code")
    status: int
    detail: str = Field(description="what was wrong and what to do")


class ProblemError(Exception):
    """Ends a request with a problem document."""

    def __init__(self, status: int, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """A problem document as the answer."""
    content = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail).model_dump()
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route declares in the OpenAPI document."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in sorted({*statuses, 400, 401, 403, 422, 503})
    }


def _methods(request: Request) -> list[str]:
    """The methods of all routes of a request's path."""
    routes = [one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in routes for method in route.methods})


def add_handlers(app: FastAPI) -> None:
    """Turns every error into a problem document."""

    @app.exception_handler(ProblemError)
    async def _problem(_: Request, error: ProblemError) -> JSONResponse:
        return problem(error.status, error.detail, error.headers)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            methods = _methods(request)
            detail = f"{request.method} is not answered here; use {' or '.join(methods)}"
            return problem(error.status_code, detail, {"Allow": ", ".join(methods)})
        if error.status_code == HTTPStatus.NOT_FOUND:
            return problem(error.status_code, "nothing has this address; /openapi.json lists the API")
        return problem(error.status_code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def _invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        return problem(422, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")

    @app.exception_handler(LookalikeError)
    async def _refused(_: Request, error: LookalikeError) -> JSONResponse:
        return problem(422, first_line(error))

    @app.exception_handler(FileError)
    async def _unavailable(_: Request, error: FileError) -> JSONResponse:
        # the index, its engine or its disk, not the request; it may be back in a moment
        return problem(503, first_line(error), {"Retry-After": "2"})
