"""What the server allows: addresses, sizes, waiting times."""

import ipaddress
import socket
from dataclasses import dataclass

from lookalike.errors import ArgumentError


@dataclass(frozen=True)
class ServeSettings:
    """Limits of the server.

    Attributes:
        host, port: where it listens.
        token: asked for in every request; None only on loopback addresses.
        allowed_hosts: names that the Host header may have, besides the listening address.
        max_bytes: of an uploaded image; larger ones are refused while they arrive.
        max_pixels: of an uploaded image, by its header, before it is decoded.
        read_seconds, decode_seconds: that an upload may take to arrive, and to be decoded.
        decoders: images decoded at a time.
        max_waiting: searches under way at a time; more are refused with 503.
        max_connections: open at a time; more are refused with 503.
        batch_images, batch_seconds: concurrent searches share a run of the network, of at most so many
            images, waiting at most so long for each other.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    max_bytes: int = 20 * 1024 * 1024
    max_pixels: int = 50_000_000
    read_seconds: float = 30.0
    decode_seconds: float = 10.0
    decoders: int = 2
    max_waiting: int = 64
    max_connections: int = 500
    batch_images: int = 16
    batch_seconds: float = 0.005

    def check(self) -> "ServeSettings":
        """Refuses an address that other machines reach without a token; returns itself."""
        if self.token is None and not is_loopback(self.host):
            raise ArgumentError(
                f"--host {self.host} is reached by other machines; it needs a token (LOOKALIKE_TOKEN, or --token-file)"
            )
        return self

    def allows_host(self, name: str) -> bool:
        """Whether a request may name this host (without a port).

        Names are compared with the list, which keeps pages of other sites from reaching the server by a name
        that they point at it. An address cannot be pointed elsewhere, so with a token every address passes.
        """
        name = name.casefold().strip("[]")
        known = {"localhost", "127.0.0.1", "::1", *map(str.casefold, self.allowed_hosts)}
        if not is_loopback(self.host):
            known |= {self.host.casefold(), socket.gethostname().casefold()}
        return name in known or (self.token is not None and _address(name) is not None)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
