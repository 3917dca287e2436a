"""Runs the server until it is stopped."""

import contextlib
import errno
import math
import socket
import sys
from pathlib import Path

import uvicorn

from lookalike.errors import ArgumentError
from lookalike.serve.app import create_app
from lookalike.serve.patience import Patient
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store


def serve(
    index: str | Path, settings: ServeSettings, *, device: str = "auto", show_token: bool = False
) -> None:
    """Serves an index; returns when the process is asked to stop.

    It prints its address, with the token if nobody knows that yet; another one must not get into a log.

    Requests are not logged: paths and filters may say what somebody looks for.

    Raises:
        FileError: no index there.
        ArgumentError: an address that other machines reach, without a token, or one that cannot be listened on.
    """
    settings.check()
    with listen(settings) as listener:
        store = Store.open(index, device)
        try:
            print(address(settings, listener.getsockname()[1], show_token=show_token), flush=True)
            print("stop with Ctrl-C", file=sys.stderr)
            with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again once it has stopped
                uvicorn.Server(server_config(store, settings)).run(sockets=[listener])
        finally:
            store.close()


def server_config(store: Store, settings: ServeSettings) -> uvicorn.Config:
    """What uvicorn runs: plain HTTP, nothing logged, no more connections than files can be open for them."""
    return uvicorn.Config(
        create_app(store, settings),
        http=Patient,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=math.ceil(settings.read_seconds),
        limit_concurrency=settings.max_connections,
    )


def listen(settings: ServeSettings) -> socket.socket:
    """A socket that listens where the settings say, so that a port in use is reported before a model is loaded.

    Raises:
        ArgumentError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listener = socket.create_server((settings.host, settings.port), family=family)
        # its connections inherit this; else the body of an answer waits 40 ms for the receipt of its header
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        reason = error.strerror if error.errno != errno.EADDRINUSE else "another program listens there"
        raise ArgumentError(
            f"cannot listen on {settings.host}, port {settings.port} ({reason}); give another --port or --host"
        ) from error


def address(settings: ServeSettings, port: int, *, show_token: bool) -> str:
    """What to open in a browser."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    shown = settings.token if show_token else "TOKEN"
    query = "" if settings.token is None else f"?token={shown}"
    return f"http://{host}:{port}/{query}"
