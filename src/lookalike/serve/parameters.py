"""The parameters of the REST API, with their limits, as the OpenAPI document declares them."""

from typing import Annotated

from fastapi import Path, Query, Request

from lookalike.errors import ArgumentError
from lookalike.utils.validation import near_miss

LARGEST_ID = 2**63 - 1
MOST_HITS = 1000

Id = Annotated[int, Path(ge=1, le=LARGEST_ID)]
Side = Annotated[int, Query(ge=64, le=1600, description="longest side, in pixels")]
After = Annotated[int, Query(ge=0, le=LARGEST_ID, description="id before the page")]
Count = Annotated[int, Query(ge=1, le=500, description="images per page")]
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
QueryId = Annotated[int, Query(ge=1, le=LARGEST_ID, description="an image of the index to search from")]
OptionalQueryId = Annotated[
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
                "schema": {
                    "type": "object",
                    "properties": {"image": {"type": "string", "format": "binary"}},
                    "additionalProperties": False,
                }
            },
        },
    }
}


async def refuse_unknown_parameters(request: Request) -> None:
    """Refuses a parameter that the OpenAPI document does not declare, which would otherwise change nothing."""
    operations = request.app.openapi()["paths"].get(request.scope["route"].path)
    if operations is None:
        return
    declared = operations[request.method.lower()].get("parameters", [])
    known = sorted(one["name"] for one in declared if one["in"] == "query")
    for name in request.query_params:
        if name not in known:
            takes = f"known: {', '.join(known)}" if known else "there is none here"
            raise ArgumentError(f"unknown parameter '{name}'{near_miss(name, known)} ({takes})")
