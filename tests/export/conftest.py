"""A small model that timm can express, its run directory, and images to check exports on."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.data.read import read
from lookalike.export import outside
from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model

SIZE = 64


def build_small(backbone="test_resnet", **settings):
    """An embedder with random weights, away from those of its first moment."""
    options = {
        "weights": "none",
        "pooling": "catavgmax",
        "size": SIZE,
        "resize": 80,
        "embedding_dim": 8,
        **settings,
    }
    return build_embedder(backbone, **options).eval()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Photo folders of two classes, images of several shapes."""
    root = tmp_path_factory.mktemp("images")
    draws = np.random.default_rng(0)
    for number in range(12):
        place = root / f"class{number % 2}"
        place.mkdir(exist_ok=True)
        coarse = draws.integers(0, 256, (6, 5 + number % 3, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((90 + 7 * number, 130 - 3 * number), Image.Resampling.BICUBIC).save(
            place / f"{number}.png"
        )
    return root


@pytest.fixture
def table(folder):
    return read(folder)


@pytest.fixture
def run(tmp_path, folder):
    """A run directory with a model and what a model card reads, but for per-query results."""
    place = tmp_path / "run"
    save_model(place, build_small(), class_names=["a"])
    facts = {
        "name": "toys",
        "source": str(folder),
        "classes": {"train": 3, "validation": 1, "test": 2},
        "images": {"train": 30, "validation": 10, "test": 20},
    }
    (place / "data.json").write_text(json.dumps(facts), encoding="utf-8")
    return place


@pytest.fixture
def pixels():
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (5, 3, SIZE, SIZE), dtype=torch.uint8, generator=generator)


@pytest.fixture
def in_this_process(monkeypatch):
    """Exports are checked here, for tests that are not about what a process without this package can run."""

    def embed(kind, model, images, out):
        outside.main(kind, str(model), str(images), str(out))
        return np.load(out)

    monkeypatch.setattr("lookalike.export.verify._outside", embed)
