"""lookalike serve: a search page and a REST API over an index."""

import os
from pathlib import Path
from typing import Annotated

import typer

from lookalike.cli.common import Device, Runtime, encoder_device

Index = Annotated[Path, typer.Argument(help="An index folder, as `lookalike index` leaves it.")]
Host = Annotated[str, typer.Option(help="Address to listen on; any but this machine's own needs a token.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: a free one.")]
AllowedHost = Annotated[
    list[str] | None, typer.Option("--allowed-host", help="A name that browsers may use; may be repeated.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="File with the token; default: LOOKALIKE_TOKEN, else, where one is needed, a new one that is printed.",
    ),
]
MaxMegabytes = Annotated[float, typer.Option("--max-megabytes", min=0.001, help="Largest upload.")]


def serve(
    index: Index,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    allowed_host: AllowedHost = None,
    token_file: TokenFile = None,
    max_megabytes: MaxMegabytes = 20,
    device: Device = "auto",
    runtime: Runtime = "torch",
) -> None:
    """Serve a page to search INDEX by image, and the REST API behind it; prints the address.

    Drop, paste, choose or photograph an image; click a result to search from it. Changes of the index are
    picked up. Uploads are neither stored nor logged.
    """
    from lookalike.utils.validation import optional_import

    for package in ("fastapi", "uvicorn", "python_multipart"):
        optional_import(package, "serve")
    from lookalike.serve.guard import new_token
    from lookalike.serve.run import serve as run
    from lookalike.serve.settings import ServeSettings, is_loopback

    token = _token(token_file)
    made = token is None and not is_loopback(host)
    if made:
        token = new_token()
    settings = ServeSettings(
        host=host,
        port=port,
        token=token,
        allowed_hosts=tuple(allowed_host or ()),
        max_bytes=int(max_megabytes * 1024 * 1024),
    )
    run(index, settings, device=encoder_device(device, runtime), show_token=made)


def _token(file: Path | None) -> str | None:
    from lookalike.errors import FileError

    if file is None:
        return os.environ.get("LOOKALIKE_TOKEN") or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise FileError(f"'{file}' cannot be read ({error.strerror})") from error
    if not token:
        raise FileError(f"'{file}' is empty; it should hold the token")
    return token
