import base64
import io
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from lookalike.data.image_bytes import thumbnail_base64
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.image_io import image_size, open_image
from lookalike.data.readers.folder import read_class_folders
from lookalike.data.transforms import EvalTransform, TrainTransform, to_tensor
from lookalike.errors import DataError
from lookalike.preprocessing import Preprocessing

RED, GREEN, BLUE, WHITE = (200, 0, 0), (0, 200, 0), (0, 0, 200), (255, 255, 255)


def corners(size=(8, 6)):
    """Four colored quarters: red green / blue white."""
    image = Image.new("RGB", size)
    w, h = size[0] // 2, size[1] // 2
    for color, at in ((RED, (0, 0)), (GREEN, (w, 0)), (BLUE, (0, h)), (WHITE, (w, h))):
        image.paste(color, (*at, at[0] + w, at[1] + h))
    return image


def opened(tmp_path, image, name="x.png", **how):
    image.save(tmp_path / name, **how)
    return open_image(tmp_path / name)


@pytest.mark.parametrize(
    ("orientation", "top_left", "top_right", "size"),
    [
        (1, RED, GREEN, (8, 6)),
        (2, GREEN, RED, (8, 6)),
        (3, WHITE, BLUE, (8, 6)),
        (4, BLUE, WHITE, (8, 6)),
        (5, RED, BLUE, (6, 8)),
        (6, BLUE, RED, (6, 8)),
        (7, WHITE, GREEN, (6, 8)),
        (8, GREEN, WHITE, (6, 8)),
    ],
)
@pytest.mark.parametrize("name", ["x.png", "x.jpg", "x.webp", "x.tiff"])
def test_every_orientation_is_turned_upright(tmp_path, orientation, top_left, top_right, size, name):
    exif = Image.Exif()
    exif[0x0112] = orientation
    how = (
        {"quality": 95, "subsampling": 0}
        if name == "x.jpg"
        else {"lossless": True}
        if name == "x.webp"
        else {}
    )
    image = opened(tmp_path, corners(), name, exif=exif, **how)
    assert image.size == image_size(tmp_path / name) == size
    assert np.abs(np.subtract(image.getpixel((0, 0)), top_left)).max() < 40
    assert np.abs(np.subtract(image.getpixel((size[0] - 1, 0)), top_right)).max() < 40


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    gray = Image.new("L", (4, 3), 255)
    image = Image.fromarray(np.full((3, 4), 65535, np.uint16)) if mode == "I;16" else gray.convert(mode)
    result = opened(tmp_path, image, "x.tiff")
    assert (result.mode, result.size) == ("RGB", (4, 3))
    assert result.getpixel((1, 1)) == WHITE


def test_sixteen_bit_gray_is_scaled_not_clipped(tmp_path):
    values = np.array([[0, 256, 32768, 65535]], np.uint16)
    image = opened(tmp_path, Image.fromarray(values), "x.png")
    assert [image.getpixel((x, 0))[0] for x in range(4)] == [0, 1, 128, 255]


def test_alpha_is_blended_on_white(tmp_path):
    image = Image.new("RGBA", (3, 1))
    image.putdata([(10, 20, 30, 255), (10, 20, 30, 0), (0, 0, 0, 128)])
    result = opened(tmp_path, image)
    assert [result.getpixel((x, 0)) for x in range(3)] == [(10, 20, 30), WHITE, (127, 127, 127)]


def test_transparent_palette_and_color_key_are_blended_on_white(tmp_path):
    palette = corners().convert("P")
    hidden = palette.getpixel((0, 0))
    assert opened(tmp_path, palette, transparency=hidden).getpixel((0, 0)) == WHITE
    assert opened(tmp_path, corners(), transparency=RED).getpixel((0, 0)) == WHITE
    assert opened(tmp_path, corners(), transparency=RED).getpixel((7, 0)) == GREEN


def test_a_cmyk_jpeg_keeps_its_colors(tmp_path):
    image = opened(tmp_path, Image.new("RGB", (16, 16), (180, 60, 20)).convert("CMYK"), "x.jpg", quality=95)
    assert np.abs(np.subtract(image.getpixel((8, 8)), (180, 60, 20))).max() < 12


def test_broken_files_are_named(tmp_path):
    whole = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(whole, "JPEG")
    heic = b"\0\0\0\x18ftypheic\0\0\0\0"
    files = {
        "half.jpg": (whole.getvalue()[: len(whole.getvalue()) // 2], "cannot be decoded"),
        "empty.jpg": (b"", "the file is empty"),
        "page.jpg": (b"<html>not found</html>", "a web page, as a failed download leaves"),
        "text.jpg": (b"not found", "not an image"),
        "phone.heic": (heic, "a damaged image"),
    }
    for name, (content, message) in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=rf"{name}: .*{message}"):
            open_image(tmp_path / name)
    with pytest.raises(DataError, match=r"gone\.jpg: no such file"):
        open_image(tmp_path / "gone.jpg")


def test_odd_paths_open(tmp_path, image):
    for name in ("фото/кот 1.jpg", "e\u0301.jpg", "\u00e9.jpg", 'quo"te.jpg', "new\nline.jpg", "no_suffix"):
        assert open_image(image(tmp_path / name)).size == (12, 10)


def test_a_large_jpeg_may_be_decoded_small_but_never_too_small(tmp_path):
    path = tmp_path / "large.jpg"
    corners((800, 600)).save(path)
    assert open_image(path).size == (800, 600)
    small = open_image(path, at_least=(150, 150))
    assert small.size == (200, 150)
    exif = Image.Exif()
    exif[0x0112] = 6
    corners((800, 600)).save(path, exif=exif)
    assert open_image(path, at_least=(150, 200)).size == (300, 400)


def test_a_size_needs_an_image(tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.jpg: not an image"):
        image_size(tmp_path / "a.jpg")


def test_tensor_is_channels_first_and_mirrors():
    image = corners()
    tensor = to_tensor(image)
    assert (tensor.shape, tensor.dtype) == ((3, 6, 8), torch.uint8)
    assert tensor[:, 0, 0].tolist() == list(RED)
    assert torch.equal(to_tensor(image, mirror=True), tensor.flip(2))
    assert tensor.is_contiguous()


def batches(photos, workers, epoch=0, seed=0):
    dataset = ImageDataset(
        read_class_folders(photos),
        TrainTransform(Preprocessing(size=8, resize=8), scale=(0.16, 1)),
        seed=seed,
    )
    dataset.set_epoch(epoch)
    return torch.cat([images for images, _, _ in DataLoader(dataset, batch_size=2, num_workers=workers)])


def test_dataset_yields_pixels_label_and_row(photos):
    dataset = ImageDataset(read_class_folders(photos), EvalTransform(Preprocessing(size=8, resize=9)))
    image, label, row = dataset[4]
    assert (image.shape, label, row) == ((3, 8, 8), 1, 4)
    assert len(dataset) == 6


def test_random_pixels_depend_on_seed_epoch_and_row_alone(photos):
    one = batches(photos, workers=0)
    assert torch.equal(one, batches(photos, workers=2))
    assert not torch.equal(one, batches(photos, workers=0, epoch=1))
    assert not torch.equal(one, batches(photos, workers=0, seed=1))


def test_living_workers_hear_of_the_epoch(photos):
    dataset = ImageDataset(
        read_class_folders(photos), TrainTransform(Preprocessing(size=8, resize=8), scale=(0.16, 1))
    )
    loader = DataLoader(dataset, batch_size=6, num_workers=1, persistent_workers=True)
    for epoch in (0, 1):
        dataset.set_epoch(epoch)
        [(images, _, _)] = list(loader)
        assert torch.equal(images, batches(photos, workers=0, epoch=epoch))


def test_a_broken_file_is_named_through_a_worker(photos):
    (photos / "bee" / "2.jpg").write_bytes(b"")
    dataset = ImageDataset(read_class_folders(photos), EvalTransform(Preprocessing(size=8, resize=8)))
    with pytest.raises(DataError) as caught:
        list(DataLoader(dataset, num_workers=1))
    assert str(caught.value) == f"{photos}/bee/2.jpg: the file is empty; replace or remove it"


def test_transforms_can_be_sent_to_other_processes():
    for transform in (EvalTransform(Preprocessing()), TrainTransform(Preprocessing(), scale=(0.16, 1))):
        assert pickle.loads(pickle.dumps(transform)).preprocessing == Preprocessing()


def test_thumbnail_is_a_small_jpeg(tmp_path, image):
    text = thumbnail_base64(image(tmp_path / "a.jpg", size=(400, 100)), 96)
    image = Image.open(io.BytesIO(base64.b64decode(text)))
    assert (image.format, image.size) == ("JPEG", (96, 24))
