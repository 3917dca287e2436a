"""Starting the server: where it listens, and the addresses that it refuses."""

import socket

import pytest

from lookalike.errors import ArgumentError
from lookalike.serve.run import address, listen
from lookalike.serve.settings import ServeSettings


def test_a_free_port_is_taken_and_a_used_one_is_refused_with_the_remedy():
    with listen(ServeSettings(port=0)) as first:
        port = first.getsockname()[1]
        assert port > 0
        with socket.create_connection(("127.0.0.1", port), timeout=20):
            pass
        with pytest.raises(ArgumentError, match=f"port {port} .another program listens there.*--port"):
            listen(ServeSettings(port=port))


def test_a_host_that_is_not_of_this_machine_is_refused():
    with pytest.raises(ArgumentError, match=r"cannot listen on 192\.0\.2\.1"):
        listen(ServeSettings(host="192.0.2.1", port=0, token="t"))


@pytest.mark.parametrize(
    ("settings", "new", "expected"),
    [
        (ServeSettings(), False, "http://127.0.0.1:8000/"),
        (ServeSettings(host="::1"), False, "http://[::1]:8000/"),
        (ServeSettings(host="0.0.0.0", token="t"), True, "http://0.0.0.0:8000/?token=t"),
        (ServeSettings(host="0.0.0.0", token="secret"), False, "http://0.0.0.0:8000/?token=TOKEN"),
    ],
)
def test_the_address_opens_in_a_browser_and_shows_only_a_new_token(settings, new, expected):
    assert address(settings, 8000, show_token=new) == expected


def test_connections_do_not_wait_to_fill_a_packet():
    with listen(ServeSettings(port=0)) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
