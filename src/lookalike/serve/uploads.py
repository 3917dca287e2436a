"""Uploaded images: read with a limit, checked by their header, decoded in a thread, never stored or logged."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request
from torch import Tensor

from lookalike.data.image_bytes import TooManyPixelsError, check_upload
from lookalike.data.image_io import PILImage, open_image
from lookalike.errors import DataError
from lookalike.serve.problems import ProblemError
from lookalike.serve.settings import ServeSettings

Prepare = Callable[[PILImage], Tensor]
NAME = "the upload"
HOW = (
    "send the file as it is (curl --data-binary @FILE), or a form with this one file (curl -F image=@FILE); "
    "not as text, JSON or base64, and not compressed again"
)


async def read_upload(request: Request, settings: ServeSettings) -> bytes:
    """The image's bytes in a raw body or in a form's only file; empty if there is no body."""
    try:
        async with asyncio.timeout(settings.read_seconds):
            body = await _read_body(request, settings.max_bytes)
    except TimeoutError as error:
        raise ProblemError(408, f"the upload took longer than {settings.read_seconds:g} seconds") from error
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data":
        return body
    return _only_file(body, options.get(b"boundary", b""))


async def _read_body(request: Request, limit: int) -> bytes:
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit:
                raise _too_large(limit)
    except ClientDisconnect as error:
        raise ProblemError(400, "the client left before the upload was complete") from error
    return bytes(body)


def _too_large(limit: int) -> ProblemError:
    headers = {"Connection": "close"}
    return ProblemError(413, f"the upload is larger than {limit / 1024 / 1024:g} MB", headers=headers)


def _only_file(body: bytes, boundary: bytes) -> bytes:
    """The content of a multipart form's one part; other fields would be lost, so they are refused."""
    contents: list[bytearray] = []

    def data(chunk: bytes, start: int, end: int) -> None:
        contents[-1] += chunk[start:end]

    try:
        parser = MultipartParser(
            boundary, {"on_part_begin": lambda: contents.append(bytearray()), "on_part_data": data}
        )
        parser.write(body)
        parser.finalize()
    except (MultipartParseError, ValueError) as error:
        raise ProblemError(400, f"the form cannot be parsed ({error}); send the image as one file") from error
    if len(contents) > 1:
        detail = (
            f"the form has {len(contents)} parts; send one image, and parameters in the address, such as ?k=5"
        )
        raise ProblemError(400, detail)
    return bytes(contents[0]) if contents else b""


class Decoder:
    """Decodes and prepares images in a few threads; when all are busy, further ones are refused."""

    def __init__(self, settings: ServeSettings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.decoders, thread_name_prefix="decode")
        self._slots = asyncio.Semaphore(settings.decoders)

    def stop(self) -> None:
        """Ends the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def decode(self, content: bytes, prepare: Prepare) -> Tensor:
        """The network's input, as `prepare` makes it of the image.

        Raises:
            ProblemError: 413 for too many pixels, 415 for what is no image, 422 for a damaged one, 503 when
                decoding takes too long.
        """
        try:
            check_upload(content, max_pixels=self._settings.max_pixels)
        except TooManyPixelsError as error:
            raise ProblemError(413, str(error)) from error
        except DataError as error:
            raise ProblemError(415, f"{error}; {HOW}") from error
        try:
            async with asyncio.timeout(self._settings.decode_seconds):
                await self._slots.acquire()
                done = asyncio.get_running_loop().run_in_executor(self._threads, _decode, content, prepare)
                done.add_done_callback(lambda _: self._slots.release())  # a thread that hangs keeps its slot
                return await asyncio.shield(done)
        except TimeoutError as error:
            raise ProblemError(
                503, "the image takes too long to decode", headers={"Retry-After": "5"}
            ) from error
        except DataError as error:
            raise ProblemError(422, f"{error}; {HOW}") from error


def _decode(content: bytes, prepare: Prepare) -> Tensor:
    return prepare(open_image(NAME, content=content))
