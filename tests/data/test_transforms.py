import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import v2

from lookalike.data.image_io import open_image
from lookalike.data.transforms import EvalTransform, TrainTransform, random_box
from lookalike.errors import ArgumentError
from lookalike.preprocessing import Preprocessing


def noise(width, height):
    pixels = np.random.default_rng(width * 1000 + height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("size", [(40, 40), (31, 57), (57, 31), (300, 33), (20, 20), (24, 24)])
@pytest.mark.parametrize("square", [False, True])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
def test_agrees_with_torchvision(size, square, interpolation):
    image = noise(*size)
    ours = EvalTransform(Preprocessing(size=20, resize=24, square=square, interpolation=interpolation))(image)
    mode = v2.InterpolationMode[interpolation.upper()]
    theirs = v2.Compose(
        [v2.Resize((24, 24) if square else 24, interpolation=mode), v2.CenterCrop(20), v2.PILToTensor()]
    )(image)
    assert torch.equal(ours, theirs)


def test_an_image_of_the_right_size_passes_untouched():
    image = noise(20, 20)
    result = EvalTransform(Preprocessing(size=20, resize=20))(image)
    assert np.array_equal(result.permute(1, 2, 0).numpy(), np.asarray(image))


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 1), (7, 3)])
def test_extreme_shapes_still_give_the_size(size):
    preprocessing = Preprocessing(size=16, resize=18)
    assert EvalTransform(preprocessing)(noise(*size)).shape == (3, 16, 16)
    drawn = TrainTransform(preprocessing, scale=(0.16, 1))(noise(*size), np.random.default_rng(0))
    assert drawn.shape == (3, 16, 16)


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 10))
def test_random_boxes_lie_inside_the_image(width, height, seed):
    box = random_box((width, height), (0.1, 1.0), (0.5, 2.0), np.random.default_rng(seed))
    assert 0 <= box[0] < box[2] <= width
    assert 0 <= box[1] < box[3] <= height


def test_random_boxes_cover_scale_and_ratio_evenly():
    draws = np.random.default_rng(0)
    boxes = np.array([random_box((1000, 1000), (0.2, 0.8), (0.5, 2.0), draws) for _ in range(3000)])
    w, h = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    area, shape = w * h / 1e6, np.log(w / h)
    assert area.min() >= 0.199
    assert area.max() <= 0.801
    assert np.abs(shape).max() <= math.log(2) + 0.01
    assert abs(shape.mean()) < 0.03
    centers = (boxes[:, 0] + boxes[:, 2]) / 2
    assert abs(centers.mean() - 500) < 12


def test_the_whole_image_is_mirrored_or_not():
    image = noise(12, 12)
    transform = TrainTransform(Preprocessing(size=12, resize=12), scale=(1, 1), ratio=(1, 1))
    plain = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    seen = set()
    for seed in range(20):
        result = transform(image, np.random.default_rng(seed))
        mirrored = torch.equal(result, plain.flip(2))
        assert mirrored or torch.equal(result, plain)
        seen.add(mirrored)
    assert seen == {True, False}


def test_a_large_photo_is_decoded_no_smaller_than_any_crop_needs():
    assert TrainTransform(Preprocessing(size=200, resize=200), scale=(0.04, 1)).at_least == (1000, 1000)


@pytest.mark.parametrize("smallest_crop", [0.25, 0.4, 1.0])
def test_training_and_evaluation_decode_the_same_pixels(smallest_crop):
    preprocessing = Preprocessing(size=200, resize=210)
    crops = TrainTransform(preprocessing, scale=(smallest_crop, 1))
    assert crops.at_least == EvalTransform(preprocessing).at_least == (420, 420)


def test_reduced_decoding_hardly_changes_what_the_network_sees(tmp_path):
    draws = np.random.default_rng(0)
    detail = sum(
        np.asarray(
            Image.fromarray(draws.integers(0, 256, (3 * n, 4 * n, 3), dtype=np.uint8)).resize((1600, 1200))
        )
        / 3.0
        for n in (4, 40, 300)
    )
    Image.fromarray(detail.clip(0, 255).astype(np.uint8)).save(tmp_path / "photo.jpg", quality=90)
    transform = EvalTransform(Preprocessing(size=96, resize=96))
    assert open_image(tmp_path / "photo.jpg", at_least=transform.at_least).size == (400, 300)
    whole = transform(open_image(tmp_path / "photo.jpg"))
    reduced = transform(open_image(tmp_path / "photo.jpg", at_least=transform.at_least))
    assert (whole.float() - reduced.float()).abs().mean() < 1


def test_invalid_settings_are_refused():
    with pytest.raises(ArgumentError, match="crop scale is"):
        TrainTransform(Preprocessing(), scale=(0.5, 0.2))
    with pytest.raises(ArgumentError, match="crop ratio is"):
        TrainTransform(Preprocessing(), scale=(1, 1), ratio=(0, 1))
    with pytest.raises(ArgumentError, match=r"flip is 1\.5"):
        TrainTransform(Preprocessing(), flip=1.5, scale=(0.16, 1))
    with pytest.raises(ArgumentError, match="draws from a generator"):
        TrainTransform(Preprocessing(), scale=(0.16, 1))(noise(4, 4))
