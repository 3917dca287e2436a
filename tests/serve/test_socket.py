"""Over a real socket: slow, oversize and broken-off uploads, and many clients at a time."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from lookalike.serve import patience

from .conftest import encoded_image


def connect(address):
    parts = urlsplit(address)
    return socket.create_connection(
        (parts.hostname, parts.port), timeout=120
    ), f"{parts.hostname}:{parts.port}"


def head(host, length):
    return f"POST /api/search HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n".encode()


def test_many_clients_get_their_own_answers(served):
    address = served()
    contents = [encoded_image(number) for number in range(12)]

    def ask(number):
        answer = httpx.post(f"{address}/api/search?k=1", content=contents[number % 12], timeout=120).json()
        return answer["hits"][0]["path"].endswith(f"/{number % 12}.png")

    with ThreadPoolExecutor(32) as pool:
        assert all(pool.map(ask, range(64)))


def test_a_slow_upload_is_ended(served):
    address = served(read_seconds=0.5)
    stream, host = connect(address)
    with stream:
        stream.sendall(head(host, 1000) + b"x")
        assert stream.recv(4096).startswith(b"HTTP/1.1 408")
    assert httpx.get(f"{address}/api/health").status_code == 200


def test_an_oversize_upload_is_refused_before_it_arrived(served):
    address = served(max_bytes=10_000)
    stream, host = connect(address)
    with stream:
        stream.sendall(head(host, 10_000_000) + b"x" * 100)
        assert stream.recv(4096).startswith(b"HTTP/1.1 413")
    assert httpx.get(f"{address}/api/health").status_code == 200


def test_clients_that_leave_early_take_no_place(served):
    address = served(max_waiting=2, read_seconds=600)
    for _ in range(5):
        stream, host = connect(address)
        stream.sendall(head(host, 1000) + b"x")
        stream.close()
    status, until = 0, time.monotonic() + 120
    while status != 200 and time.monotonic() < until:  # the server notices that they left in its own time
        time.sleep(0.05)
        status = httpx.post(f"{address}/api/search?k=1", content=encoded_image(1), timeout=120).status_code
    assert status == 200


def test_requests_under_way_are_answered_before_the_server_ends(served):
    address, content = served(), encoded_image(4)
    stream, host = connect(address)
    with stream:
        stream.sendall(head(host, len(content)) + content[:100])
        assert httpx.get(f"{address}/api/health", timeout=120).status_code == 200
        served.stop()
        until = time.monotonic() + 120
        while time.monotonic() < until:  # it takes no further connection
            try:
                connect(address)[0].close()
            except ConnectionRefusedError:
                break
        else:
            pytest.fail("a server that ends still took connections")
        stream.sendall(content[100:])
        received = b"".join(iter(lambda: stream.recv(65_536), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert json.loads(received.partition(b"\r\n\r\n")[2])["hits"]


def test_a_server_that_ends_waits_no_longer_than_an_upload_may_take(served):
    address = served(read_seconds=0.5)
    stream, host = connect(address)
    with stream:
        stream.sendall(head(host, 1000) + b"x")
        served.stop()
        assert stream.recv(4096).startswith(b"HTTP/1.1 408")


def answer(address, request, *, more=b""):
    """The first line of what a socket gets for raw bytes; empty if the connection is closed."""
    stream, host = connect(address)
    with stream:
        stream.sendall(request.replace(b"HOST", host.encode()))
        try:
            for _ in range(400 if more else 0):
                stream.sendall(more)
        except OSError:
            pass  # refused while it was sent
        try:
            return stream.recv(4096).split(b"\r\n")[0]
        except ConnectionResetError:
            return b""


CHUNKED = b"POST /api/search HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /api/health HTTP/1.1\r\nHost: HOST\r\n\r\n", b"200"),
        (b"GET /api/health HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /api/health HTTP/1.0\r\n\r\n", b"400"),
        (b"GET /api/health HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"400"),
        (b"GET /api/health HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\n\r\n", b"403"),
        (b"GET /static/../settings.py HTTP/1.1\r\nHost: HOST\r\n\r\n", b"404"),
        (b"GET /static/%2e%2e%2fsettings.py HTTP/1.1\r\nHost: HOST\r\n\r\n", b"404"),
        (b"GET /api/items/..%2f..%2fetc%2fpasswd/image HTTP/1.1\r\nHost: HOST\r\n\r\n", b"404"),
        (b"GET /api/items/1%00/image HTTP/1.1\r\nHost: HOST\r\n\r\n", b"422"),
        (b"GET /api/items/99999999999999999999/image HTTP/1.1\r\nHost: HOST\r\n\r\n", b"422"),
        (b"GET /api/items?where=%ff%fe%00 HTTP/1.1\r\nHost: HOST\r\n\r\n", b"422"),
        (b"TRACE / HTTP/1.1\r\nHost: HOST\r\n\r\n", b"405"),
        (b"POST /api/search HTTP/1.1\r\nHost: HOST\r\nContent-Length: -1\r\n\r\n", b"400"),
        (
            b"POST /api/search HTTP/1.1\r\nHost: HOST\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabc",
            b"400",
        ),
        (CHUNKED + b"zz\r\n", b"400"),
        (CHUNKED + b"3\r\nabc\r\n0\r\n\r\n", b"415"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (
            b"GET /api/health HTTP/1.1\r\nHost: HOST\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            b"200",
        ),
    ],
)
def test_hostile_requests_are_refused_and_the_server_goes_on(served, request_, status):
    address = served()
    assert answer(address, request_).split(b" ")[1:2] == [status]
    assert httpx.get(f"{address}/api/health", timeout=120).status_code == 200


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET / HTTP/1.1\r\nX: ", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n" * 1_000),
        (b"GET /", b"x" * 10_000),
    ],
    ids=["a header", "headers", "an address"],
)
def test_headers_without_end_are_refused(served, begin, more):
    address = served()
    assert answer(address, begin, more=more) in (b"", b"HTTP/1.1 400 Bad Request")
    assert httpx.get(f"{address}/api/health", timeout=120).status_code == 200


def test_chunks_without_end_are_counted(served):
    address = served(max_bytes=100_000)
    assert b" 413 " in answer(address, CHUNKED, more=b"400\r\n" + b"x" * 1024 + b"\r\n")
    assert httpx.get(f"{address}/api/health", timeout=120).status_code == 200


def test_pipelined_requests_are_answered_in_order(served):
    stream, host = connect(served())
    with stream:
        stream.sendall(f"GET /api/items/1 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() * 20)
        received = b""
        while received.count(b"HTTP/1.1 200") < 20:
            received += stream.recv(65_536)


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", b"GET /api/health HTTP/1.1\r\nHost: HOST\r\n\r\nGET / HT"],
    ids=["nothing", "a part", "more"],
)
def test_a_connection_without_a_request_is_closed(served, monkeypatch, sent):
    monkeypatch.setattr(patience, "SECONDS", 0.5)
    stream, host = connect(served())
    with stream:
        stream.sendall(sent.replace(b"HOST", host.encode()))
        while stream.recv(4096):
            pass  # ends when the server closes


def test_more_connections_than_allowed_are_refused_and_later_ones_served(served):
    address = served(max_connections=5)
    idle = [connect(address)[0] for _ in range(8)]
    assert httpx.get(f"{address}/api/health", timeout=120).status_code == 503
    for stream in idle:
        stream.close()
    status, until = 0, time.monotonic() + 60
    while status != 200 and time.monotonic() < until:
        status = httpx.get(f"{address}/api/health", timeout=120).status_code
    assert status == 200
