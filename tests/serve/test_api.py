"""The REST API: what it answers, what it refuses, and that every error is a problem document."""

import base64
import gzip
import io
import os
import shutil

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search.build import build_index
from lookalike.serve.app import create_app
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store

from .conftest import LOCAL, encoded_image


def is_problem(response, status):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["status"] == status
    assert response.json()["detail"]
    return response.json()["detail"]


@pytest.mark.parametrize("way", ["raw", "form", "id"])
def test_search_by_upload_or_id(client, way):
    content = encoded_image(4)
    if way == "raw":
        answer = client.post("/api/search?k=3", content=content).json()
    elif way == "form":
        answer = client.post("/api/search?k=3", files={"image": ("x.png", content, "image/png")}).json()
    else:
        item = client.post("/api/search?k=1", content=content).json()["hits"][0]["id"]
        answer = client.get(f"/api/search?id={item}&k=3").json()
        assert answer == client.post(f"/api/search?id={item}&k=3").json()
        assert item not in [hit["id"] for hit in answer["hits"]]
        assert len(answer["hits"]) == 3
        return
    best = answer["hits"][0]
    assert (best["path"], best["label"], best["columns"]) == ("photos/b/4.png", "b", {"year": 2004})
    assert best["similarity"] == pytest.approx(1, abs=1e-4)
    assert best["same_class"]
    assert not answer["unknown"]
    assert answer["threshold"] == 0.9


def test_filters_pages_and_thresholds(client):
    content = encoded_image(4)
    whole = client.post("/api/search?k=100", content=content).json()
    assert len(whole["hits"]) == 12
    assert whole["next_offset"] is None
    first = client.post("/api/search?k=5", content=content).json()
    second = client.post(f"/api/search?k=5&offset={first['next_offset']}", content=content).json()
    assert [h["id"] for h in first["hits"] + second["hits"]] == [h["id"] for h in whole["hits"][:10]]
    some = client.post(
        "/api/search", params={"where": "year >= 2006 and label in (a)", "threshold": 0.9999}, content=content
    ).json()
    assert {hit["path"] for hit in some["hits"]} == {"photos/a/6.png", "photos/a/9.png"}
    assert some["unknown"]
    only = client.post("/api/search?hide_unknown=true&threshold=0.9999", content=content).json()
    assert [hit["path"] for hit in only["hits"]] == ["photos/b/4.png"]
    once = client.post("/api/search?collapse=-1", content=content).json()
    assert len(once["hits"]) == 1


def test_items(client):
    first = client.get("/api/items?count=5").json()
    rest = client.get(f"/api/items?count=500&after={first['next_after']}").json()
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert len(set(ids)) == 12
    assert rest["next_after"] is None
    one = client.get(f"/api/items/{ids[0]}").json()
    assert one == first["items"][0]
    assert len(client.get("/api/items", params={"where": "label = a"}).json()["items"]) == 4
    is_problem(client.get("/api/items/999"), 404)


def test_images_are_encoded_again_without_metadata(client, desk, tmp_path):
    item = client.post("/api/search?k=1", content=encoded_image(4)).json()["hits"][0]["id"]
    response = client.get(f"/api/items/{item}/image?side=64")
    assert response.headers["content-type"] == "image/jpeg"
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.format == "JPEG"
        assert max(image.size) <= 64
        assert not image.getexif()
        assert "icc_profile" not in image.info
    is_problem(client.get("/api/items/999/image"), 404)
    for path in (
        "/api/items/../../etc/passwd/image",
        "/static/../app.py",
        "/static/page.html",
        "/photos/a/0.png",
    ):
        is_problem(client.get(path), 404)


def test_health_model_and_page(client):
    assert client.get("/api/health").json() == {"status": "ok", "images": 12}
    model = client.get("/api/model").json()
    assert model["threshold"] == {"similarity": 0.9}
    assert model["columns"] == {"label": "text", "path": "text", "year": "number"}
    page = client.get("/")
    assert "12 images" in page.text
    assert "https://" not in page.text
    for name in ("page.js", "page.css"):
        assert client.get(f"/static/{name}").status_code == 200


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"url": "/api/search"}, 400, "send an image"),
        ({"url": "/api/search", "content": b"<html>"}, 415, "not an image"),
        ({"url": "/api/search", "content": encoded_image(1)[:60]}, 422, "cannot be decoded"),
        ({"url": "/api/search?id=999"}, 404, "no image 999"),
        ({"url": "/api/search?id=1", "content": encoded_image(1)}, 400, "not both"),
        ({"url": "/api/search?k=0", "content": encoded_image(1)}, 422, "k:"),
        ({"url": "/api/search?where=yaer>3", "content": encoded_image(1)}, 422, "did you mean 'year'"),
        ({"url": "/api/search?threshold=2", "content": encoded_image(1)}, 422, "threshold"),
        ({"url": "/api/search?id=99999999999999999999"}, 422, "id"),
        (
            {"url": "/api/search", "content": b"x", "headers": {"content-type": "multipart/form-data"}},
            400,
            "form cannot be parsed",
        ),
        ({"url": "/api/search", "json": {"image": "abc"}}, 415, "not as text, JSON or base64"),
        ({"url": "/api/search", "content": base64.b64encode(encoded_image(1))}, 415, "not as text"),
        ({"url": "/api/search", "content": gzip.compress(encoded_image(1))}, 415, "not compressed again"),
        ({"url": "/api/search", "data": {"id": 3}}, 415, "send the file as it is"),
        ({"url": "/api/search", "files": {"a": b"x"}, "data": {"k": 3}}, 400, "2 parts; send one image, and"),
        ({"url": "/api/search?limit=3", "content": encoded_image(1)}, 422, "unknown parameter 'limit'"),
        ({"url": "/api/search?treshold=0.3&id=1"}, 422, "did you mean 'threshold'"),
        ({"url": "/api/nothing"}, 404, "/openapi.json lists the API"),
        ({"url": "/api/health"}, 405, "POST is not answered here; use GET"),
    ],
)
def test_every_refusal_is_a_problem_document(client, request_, status, words):
    assert words in is_problem(client.post(**request_), status)


GET_ROUTES = [
    "/",
    "/api/health",
    "/api/model",
    "/api/items",
    "/api/items/1",
    "/api/items/1/image",
    "/openapi.json",
]


@pytest.mark.parametrize("path", GET_ROUTES)
def test_head_is_answered_as_get(client, path):
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers} == {**got.headers}


@pytest.mark.parametrize("path", GET_ROUTES[1:])
def test_a_slash_at_the_end_changes_nothing(client, path):
    assert client.get(f"{path}/", follow_redirects=False).content == client.get(path).content


@pytest.mark.parametrize(
    ("path", "methods"), [("/api/search", "GET, POST"), ("/api/items", "GET"), ("/api/items/1", "GET")]
)
def test_a_wrong_method_is_told_all_right_ones(client, path, methods):
    refused = client.put(path)
    is_problem(refused, 405)
    assert refused.headers["allow"] == methods


@pytest.mark.parametrize("path", [path for path in GET_ROUTES if path.startswith("/api")])
def test_no_parameter_is_ignored(client, path):
    assert "unknown parameter 'colour'" in is_problem(client.get(f"{path}?colour=red"), 422)


def test_an_image_that_a_browser_has_is_not_sent_again(client):
    first = client.get("/api/items/1/image")
    again = client.get("/api/items/1/image", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/api/items/2/image").headers["etag"] != first.headers["etag"]


@pytest.mark.parametrize("other", ["same model", "another model"])
def test_an_index_put_in_place_of_the_served_one_is_served(desk, tmp_path, other):
    """As when a new version of an index is moved over the old one."""
    served, fresh = tmp_path / "index", tmp_path / "fresh"
    shutil.copytree(desk / "index", served)
    model = desk / "model"
    if other == "another model":
        model = tmp_path / "model"
        embedder = build_embedder("test_resnet", weights="none", size=32, embedding_dim=6, seed=1)
        save_model(model, embedder, class_names=["a"])
    build_index(model, desk / "photos" / "a", fresh, device="cpu")
    store = Store.open(served, "cpu")
    with TestClient(create_app(store, ServeSettings()), base_url=LOCAL) as client:
        before = client.get("/api/items/1/image").headers["etag"]
        assert client.get("/api/health").json()["images"] == 12
        served.rename(tmp_path / "old")
        is_problem(client.get("/api/health"), 503)
        fresh.rename(served)
        found = client.post("/api/search?k=1", content=encoded_image(3)).json()["hits"]
        assert (found[0]["path"], found[0]["similarity"]) == ("3.png", pytest.approx(1, abs=1e-3))
        assert client.get("/api/health").json()["images"] == 4
        assert client.get("/api/items/1/image").headers["etag"] != before
    store.close()


def test_oversize_is_refused_by_bytes_and_by_pixels(store):
    with TestClient(
        create_app(store, ServeSettings(max_bytes=2000, max_pixels=4000)), base_url=LOCAL
    ) as client:
        assert "larger than" in is_problem(client.post("/api/search", content=b"x" * 2001), 413)
        chunks = (b"x" * 500 for _ in range(10))  # no Content-Length
        assert "larger than" in is_problem(client.post("/api/search", content=chunks), 413)
        assert "pixels" in is_problem(client.post("/api/search", content=encoded_image(1, size=64)), 413)


def test_a_full_server_says_so(store):
    with TestClient(create_app(store, ServeSettings(max_waiting=0)), base_url=LOCAL) as client:
        response = client.post("/api/search", content=encoded_image(1))
        is_problem(response, 503)
        assert response.headers["retry-after"] == "1"


def test_updates_of_the_index_arrive_without_a_restart(client, desk):
    new = encoded_image(500)
    (desk / "photos" / "c" / "new.png").write_bytes(new)
    before = client.get("/api/health").json()["images"]
    build_index(desk / "model", desk / "photos", desk / "index", device="cpu")
    try:
        best = client.post("/api/search?k=1", content=new).json()["hits"][0]
        assert best["path"].endswith("c/new.png")
        assert client.get("/api/health").json()["images"] == before + 1
        os.unlink(desk / "photos" / "c" / "new.png")
        assert client.post("/api/search?k=1", content=new).json()["hits"][0]["missing"]
        is_problem(client.get(f"/api/items/{best['id']}/image"), 404)
    finally:
        (desk / "photos" / "c" / "new.png").unlink(missing_ok=True)
        build_index(desk / "model", desk / "list.csv", desk / "index", prune=True, device="cpu")


def test_uploads_are_decoded_like_files(client, tmp_path):
    """A photo that a phone turned by its EXIF orientation is found upright."""
    pixels = np.random.default_rng(3).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    upright = Image.fromarray(pixels).resize((48, 48), Image.Resampling.NEAREST)
    turned, exif = upright.rotate(90, expand=True), Image.Exif()
    exif[0x0112] = 6
    buffer = io.BytesIO()
    turned.save(buffer, "PNG", exif=exif)
    best = client.post("/api/search?k=1", content=buffer.getvalue()).json()["hits"][0]
    assert (best["path"], round(best["similarity"], 3)) == ("photos/a/3.png", 1.0)


def test_an_index_that_is_gone_is_not_the_fault_of_the_request(client, desk):
    facts = desk / "index" / "index.json"
    content = facts.read_bytes()
    facts.unlink()
    try:
        answer = client.get("/api/items/1")
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
        assert "no index" in answer.json()["detail"]
    finally:
        facts.write_bytes(content)
    assert client.get("/api/items/1").status_code == 200
