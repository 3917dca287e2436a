"""Hosts, origins and tokens: what a browser on another site, or another machine, cannot do."""

import pytest
from starlette.testclient import TestClient

from lookalike.errors import ArgumentError
from lookalike.serve.app import create_app
from lookalike.serve.guard import HEADERS
from lookalike.serve.settings import ServeSettings

from .conftest import encoded_image

TOKEN = "secret-token"


@pytest.mark.parametrize(
    ("host", "answered"),
    [
        ("localhost", True),
        ("localhost:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("search.example", True),
        ("evil.example", False),
        ("evil.example:8000", False),
        ("localhost.evil.example", False),
        ("localhost:8000@evil.example", False),
        ("192.168.0.7", False),
        ("localhost:port", False),
        ("", False),
    ],
)
def test_only_known_host_names_are_answered(store, host, answered):
    with TestClient(create_app(store, ServeSettings(allowed_hosts=("search.example",)))) as client:
        response = client.get("/api/health", headers={"host": host})
        assert response.status_code == (200 if answered else 400)


@pytest.mark.parametrize(
    ("origin", "answered"),
    [
        (None, True),
        ("http://localhost:8000", True),
        ("http://localhost:9000", False),
        ("https://evil.example", False),
        ("null", False),
        ("http://localhost:8000@evil.example", False),
    ],
)
def test_pages_of_other_sites_get_no_answer(client, origin, answered):
    headers = {} if origin is None else {"origin": origin}
    response = client.post("/api/search?k=1", content=encoded_image(1), headers=headers)
    assert response.status_code == (200 if answered else 403)


@pytest.mark.parametrize(
    "path", ["/", "/static/page.js", "/api/health", "/api/items/999", "/nothing", "/openapi.json"]
)
def test_every_answer_has_the_security_headers(client, path):
    response = client.get(path)
    for name, value in HEADERS.items():
        assert response.headers[name] == value
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["cache-control"]


def test_other_addresses_need_a_token():
    with pytest.raises(ArgumentError, match="token"):
        ServeSettings(host="0.0.0.0").check()
    ServeSettings(host="0.0.0.0", token=TOKEN).check()
    ServeSettings(host="localhost").check()


def test_the_token_opens_by_header_or_by_a_cookie_from_the_printed_address(store):
    with TestClient(
        create_app(store, ServeSettings(host="0.0.0.0", token=TOKEN)), base_url="http://10.0.0.5:8000"
    ) as client:
        for path in ("/", "/?token=wrong", "/api/health", "/openapi.json", f"/api/health?token={TOKEN}"):
            assert client.get(path).status_code == 401, path
        for value in (f"Bearer {TOKEN}x", "Bearer", TOKEN, f"Basic {TOKEN}", "Bearer é".encode()):
            assert client.get("/api/health", headers={"authorization": value}).status_code == 401
        assert client.get("/api/health", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert client.get(f"/?token={TOKEN}", follow_redirects=False).status_code == 303
        cookie = client.get(f"/?token={TOKEN}", follow_redirects=False).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert client.get("/api/health").status_code == 200
        assert client.get("/api/health", headers={"host": "evil.example"}).status_code == 400
