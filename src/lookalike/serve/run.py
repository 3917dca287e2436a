"""Runs the server until it is stopped."""

import sys
from pathlib import Path

import uvicorn

from lookalike.serve.app import create_app
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store


def serve(index: str | Path, settings: ServeSettings, *, device: str = "auto") -> None:
    """Serves an index; returns when the process is asked to stop.

    Requests are not logged: paths and filters may say what somebody looks for.

    Raises:
        FileError: no index there.
        ArgumentError: an address that other machines reach, without a token.
    """
    settings.check()
    store = Store.open(index, device)
    try:
        app = create_app(store, settings)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        query = "" if settings.token is None else f"?token={settings.token}"
        print(f"http://{host}:{settings.port}/{query}", flush=True)
        print("stop with Ctrl-C", file=sys.stderr)
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=10,
        )
    finally:
        store.close()
