"""One request sees one index, whatever other processes do to the folder meanwhile."""

import contextlib
import shutil

import pytest
from starlette.testclient import TestClient

from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search import ImageIndex
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder
from lookalike.serve.app import create_app
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Store

from .conftest import LOCAL, encoded_image

REQUESTS = {
    "/": {"url": "/"},
    "/api/health": {"url": "/api/health"},
    "/api/model": {"url": "/api/model"},
    "/api/items": {"url": "/api/items?where=year>2000"},
    "/api/items/{id}": {"url": "/api/items/1"},
    "/api/items/{id}/image": {"url": "/api/items/1/image"},
    "/api/search": {"url": "/api/search?id=1"},
    "/api/search, an upload": {"url": "/api/search", "method": "POST", "content": encoded_image(1)},
}
WITHOUT_INDEX = {"/static/{name}", "/openapi.json"}


@pytest.fixture
def copy(desk, tmp_path):
    """An index that a test may change, and another of another model."""
    shutil.copytree(desk / "index", tmp_path / "index")
    embedder = build_embedder("test_resnet", weights="none", size=32, embedding_dim=6, seed=1)
    save_model(tmp_path / "model", embedder, class_names=["a"])
    build_index(tmp_path / "model", desk / "photos" / "a", tmp_path / "other", device="cpu")
    return tmp_path


def replace_index(folder):
    """Puts the other index of `copy` in place of the served one."""
    (folder / "index").rename(folder / "old")
    (folder / "other").rename(folder / "index")


def test_every_route_takes_the_index_once(store, monkeypatch):
    taken, using = [], store.using

    def counted():
        taken.append(1)
        return using()

    monkeypatch.setattr(store, "using", counted)
    app = create_app(store, ServeSettings())
    assert {route.path for route in app.routes} - WITHOUT_INDEX == {path.split(",")[0] for path in REQUESTS}
    with TestClient(app, base_url=LOCAL) as client:
        for path, request in REQUESTS.items():
            taken.clear()
            assert client.request(**{"method": "GET", **request}).status_code == 200
            assert taken == [1], path


def test_a_search_ends_with_the_index_that_it_began_with(copy, monkeypatch):
    """Also where an index of another model takes its place between the network and the search."""
    encode = ImageEncoder.encode

    def replaced_meanwhile(encoder, tensors):
        if (copy / "other").exists():
            replace_index(copy)
        return encode(encoder, tensors)

    store = Store.open(copy / "index", "cpu")
    monkeypatch.setattr(ImageEncoder, "encode", replaced_meanwhile)
    with TestClient(create_app(store, ServeSettings()), base_url=LOCAL) as client:
        answers = [client.post("/api/search?k=99", content=encoded_image(3)).json() for _ in range(2)]
    store.close()
    assert [len(answer["hits"]) for answer in answers] == [12, 4]
    assert [answer["hits"][0]["path"] for answer in answers] == ["photos/a/3.png", "3.png"]


def test_an_index_is_closed_when_the_last_request_leaves_it(copy):
    store = Store.open(copy / "index", "cpu")
    with store.using() as first:
        replace_index(copy)
        with store.using() as second, store.using() as third:
            assert second is third is not first
            assert (len(first.index), len(second.index)) == (12, 4)
    assert (is_open(first.index), is_open(second.index)) == (False, True)
    store.close()
    assert not is_open(second.index)


def is_open(index):
    with contextlib.suppress(Exception):
        return len(index) > 0
    return False


def test_the_model_is_loaded_again_only_if_it_is_another(copy):
    store = Store.open(copy / "index", "cpu")
    with store.using() as first:
        pass
    with ImageIndex.open(copy / "index", writable=True) as index:
        index.set_facts(threshold={"similarity": 0.1})
    with store.using() as second:
        assert second.encoder is first.encoder
        assert second.index.facts.threshold == {"similarity": 0.1}
    replace_index(copy)
    with store.using() as third:
        assert third.encoder.dim == 6
    store.close()
