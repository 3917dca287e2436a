"""Small images and data sets that the data tests share; every test has its own empty cache."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("LOOKALIKE_CACHE", str(folder))
    return folder


def save_image(path: Path, seed: int = 0, size: tuple[int, int] = (12, 10)) -> Path:
    """A noisy image; its content depends on `seed`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG" if path.suffix == "" else None)
    return path


@pytest.fixture
def image() -> Callable[..., Path]:
    return save_image


@pytest.fixture
def photos(tmp_path) -> Path:
    """photos/{ant,bee,cat}/1.jpg.. with 3, 2 and 1 images."""
    folder = tmp_path / "photos"
    for c, (name, count) in enumerate((("ant", 3), ("bee", 2), ("cat", 1))):
        for i in range(count):
            save_image(folder / name / f"{i + 1}.jpg", seed=10 * c + i)
    return folder
