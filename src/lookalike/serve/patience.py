"""Connections that send nothing, or their headers too slowly, are closed: uvicorn itself waits for them forever."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 15.0


class Patient(H11Protocol):
    """Closes a connection that has been without a request under way for `SECONDS`."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Waits while no request is under way, whatever arrives meanwhile."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._wait_no_longer()
        elif self._limit is None:
            self._wait()

    def _wait(self) -> None:
        self._limit = self.loop.call_later(SECONDS, self.transport.close)

    def _wait_no_longer(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
