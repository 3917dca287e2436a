"""Over a real socket: slow, oversize and broken-off uploads, and many clients at a time."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx

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

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(48)))


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
