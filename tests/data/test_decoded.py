"""Decoded pictures on disk are what the files hold, to the last bit."""

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.data.dataset import LabeledImages
from lookalike.data.decoded import decoded_pictures
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.image_io import open_image
from lookalike.data.transforms import train_transform
from lookalike.errors import DataError
from lookalike.preprocessing import Preprocessing
from lookalike.utils.progress import Progress

TRANSFORM = train_transform(Preprocessing(size=20, resize=20), scale=(0.4, 1.0))


@pytest.fixture
def photos(tmp_path) -> LabeledImages:
    """JPEG and PNG of several shapes, one of them turned by its EXIF orientation, one gray."""
    draws = np.random.default_rng(0)
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, (height, width) in enumerate([(90, 160), (200, 140), (33, 47), (64, 64), (120, 30)]):
        picture = Image.fromarray(draws.integers(0, 255, (height, width, 3), dtype=np.uint8))
        exif = Image.Exif()
        if number == 1:
            exif[0x0112] = 6
        picture = picture.convert("L") if number == 3 else picture
        picture.save(folder / f"{number}.{'png' if number == 2 else 'jpg'}", exif=exif)
    paths = tuple(sorted(file.name for file in folder.iterdir()))
    return LabeledImages(folder, paths, np.array([0, 0, 1, 1, 1]), ("a", "b"))


def decode(table, at_least=TRANSFORM.at_least):
    digest = table.picture_digest()
    return decoded_pictures(table, digest=digest, at_least=at_least, progress=Progress())


@pytest.mark.parametrize("at_least", [None, (40, 40)])
def test_kept_pictures_are_the_opened_ones(photos, own_cache, at_least):
    kept = decode(photos, at_least)
    for row in range(len(photos)):
        np.testing.assert_array_equal(kept.open(row), open_image(photos.file(row), at_least=at_least))


def test_training_on_them_is_training_on_the_files(photos, own_cache):
    of_files, of_kept = (ImageDataset(photos, TRANSFORM, seed=3) for _ in range(2))
    of_kept.kept = decode(photos)
    for epoch in (1, 2):
        for dataset in (of_files, of_kept):
            dataset.set_epoch(epoch)
        for row in range(len(photos)):
            assert torch.equal(of_files[row][0], of_kept[row][0])


def test_they_are_decoded_once(photos, own_cache, monkeypatch):
    decode(photos)
    files = {file: file.stat().st_mtime_ns for file in own_cache.rglob("*.*")}
    monkeypatch.setattr("lookalike.data.decoded.open_image", lambda *a, **k: pytest.fail("decoded again"))
    decode(photos)
    assert {file: file.stat().st_mtime_ns for file in own_cache.rglob("*.*")} == files
    assert sorted(file.suffix for file in files) == [".npy", ".rgb"]


def test_another_resolution_and_other_pictures_are_kept_apart(photos, own_cache):
    decode(photos)
    decode(photos, None)
    Image.new("RGB", (50, 50), "red").save(photos.file(0))
    assert decode(photos).open(0).getpixel((3, 3))[0] > 200
    assert len(list(own_cache.rglob("*.npy"))) == 3


def test_a_broken_picture_is_named_and_leaves_nothing(photos, own_cache):
    photos.file(3).write_bytes(photos.file(3).read_bytes()[:300])
    with pytest.raises(DataError, match=photos.paths[3]):
        decode(photos)
    assert not [file for file in own_cache.rglob("*") if file.is_file()]
