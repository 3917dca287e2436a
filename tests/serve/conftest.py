"""An index of a few images, served in this process and over a real socket."""

import io
import socket
import threading
import time

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="pip install 'lookalike[serve]' is absent")

import uvicorn
from starlette.testclient import TestClient

from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search import ImageIndex
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder
from lookalike.serve.app import create_app
from lookalike.serve.run import server_config
from lookalike.serve.settings import ServeSettings
from lookalike.serve.store import Served, Store

LOCAL = "http://localhost:8000"


def encoded_image(seed, size=48, kind="PNG"):
    """An image file's bytes."""
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(blocks).resize((size, size), Image.Resampling.NEAREST).save(buffer, kind)
    return buffer.getvalue()


def paint(folder):
    """Three classes of four images, with a column."""
    rows = ["path,label,year"]
    for number in range(12):
        name = f"{'abc'[number % 3]}/{number}.png"
        (folder / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).write_bytes(encoded_image(number))
        rows.append(f"photos/{name},{'abc'[number % 3]},{2000 + number}")
    (folder / "list.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """A folder with images, a model and an index with a threshold."""
    folder = tmp_path_factory.mktemp("serve")
    paint(folder)
    embedder = build_embedder("test_resnet", weights="none", size=32, embedding_dim=8)
    save_model(folder / "model", embedder, class_names=["a"])
    build_index(folder / "model", folder / "list.csv", folder / "index", device="cpu")
    with ImageIndex.open(folder / "index", writable=True) as index:
        index.set_facts(threshold={"similarity": 0.9})
    return folder


@pytest.fixture(scope="session")
def encoder(desk):
    """The model of the index, read once for all tests."""
    return ImageEncoder.of_index(desk / "index", "cpu")


@pytest.fixture
def store(desk, encoder):
    opened = Store(desk / "index", "cpu", Served(ImageIndex.open(desk / "index"), encoder))
    yield opened
    opened.close()


@pytest.fixture
def client(store):
    """The application in this process; answers of any status are given to the test."""
    with TestClient(create_app(store, ServeSettings()), base_url=LOCAL) as made:
        yield made


@pytest.fixture
def served(store):
    """Serves over a socket of its own; call it with settings, and get the address; `stop` asks it to end."""
    servers = []

    def call(**settings):
        listening = socket.create_server(("127.0.0.1", 0))  # held from here on, so no other test can take it
        port = listening.getsockname()[1]
        server = uvicorn.Server(server_config(store, ServeSettings(port=port, **settings)))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        servers.append((server, thread))
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.02)
        return f"http://127.0.0.1:{port}"

    def stop():
        for server, _ in servers:
            server.should_exit = True  # what uvicorn does on SIGTERM

    call.stop = stop
    yield call
    stop()
    for _, thread in servers:
        thread.join(120)
        assert not thread.is_alive(), "the server did not end"
