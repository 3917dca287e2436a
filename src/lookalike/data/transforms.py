"""From an image to the uint8 tensor that the network takes, by the backbone's own `Preprocessing`.

Two transforms: a fixed one for everything that is measured or searched, and a random one for training.
Both are small picklable objects; the random one draws only from the generator that it is given.
"""

import math

import numpy as np
import torch
from torch import Tensor

from lookalike.data.image_pixels import PILImage, resize
from lookalike.errors import ArgumentError
from lookalike.preprocessing import Preprocessing
from lookalike.utils.validation import check_between

CROP_TRIES = 10
LONGEST = 10


class EvalTransform:
    """Resizes the short side (or both, `square`) to `resize` and takes the central `size` x `size`.

    An image of that size is returned unchanged. Of images longer than LONGEST times their short side only the
    central part of that length is resized: the ends would be cut off anyhow.
    """

    random = False

    def __init__(self, preprocessing: Preprocessing) -> None:
        self.preprocessing = preprocessing
        self.at_least: tuple[int, int] | None = decoded_size(preprocessing)

    def __call__(self, image: PILImage, draws: np.random.Generator | None = None) -> Tensor:
        """uint8 (3, size, size) of an RGB image; `draws` is not used."""
        want = self.preprocessing
        if not want.square:
            image = _shorten(image)
        target = resized_size(image.size, want.resize, square=want.square)
        if image.size != target:
            image = resize(image, target, want.interpolation)
        if image.size != (want.size, want.size):
            left, top = (round((side - want.size) / 2) for side in image.size)
            image = image.crop((left, top, left + want.size, top + want.size))
        return to_tensor(image)


class TrainTransform:
    """A random crop of random area and proportions, resized to `size` x `size`, mirrored half of the time.

    The crop covers a share of the area uniform in `scale`, its width/height is log-uniform in `ratio`; after
    ten misses the central crop with the nearest allowed proportions is taken.
    """

    random = True

    def __init__(
        self,
        preprocessing: Preprocessing,
        *,
        scale: tuple[float, float],
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: float = 0.5,
    ) -> None:
        if not 0 < scale[0] <= scale[1] <= 1:
            raise ArgumentError(f"crop scale is {scale}; it must be (low, high) with 0 < low <= high <= 1")
        if not 0 < ratio[0] <= ratio[1]:
            raise ArgumentError(f"crop ratio is {ratio}; it must be (low, high) with 0 < low <= high")
        check_between("flip", flip, 0, 1)
        self.preprocessing = preprocessing
        self.scale = scale
        self.ratio = ratio
        self.flip = flip
        self.at_least: tuple[int, int] | None = decoded_size(preprocessing, smallest_crop=scale[0])

    def __call__(self, image: PILImage, draws: np.random.Generator | None = None) -> Tensor:
        """uint8 (3, size, size) of an RGB image, random by `draws`."""
        if draws is None:
            raise ArgumentError("the training transform draws from a generator; give it draws=...")
        size = self.preprocessing.size
        box = random_box(image.size, self.scale, self.ratio, draws)
        mirror = bool(draws.random() < self.flip)
        if box != (0, 0, size, size) or image.size != (size, size):
            image = resize(image, (size, size), self.preprocessing.interpolation, box)
        return to_tensor(image, mirror=mirror)


def decoded_size(preprocessing: Preprocessing, *, smallest_crop: float = 1.0) -> tuple[int, int]:
    """The sides that a decoded image must have at least: twice what it is resized to, or more for small crops.

    A JPEG that is larger is decoded at a half, a quarter or an eighth of its size. Training, evaluation, index and
    search all decode by this rule; a photo of 12 megapixels takes a fifth of the time, and its pixels after
    resizing differ by less than 1 of 255 on average.

    Args:
        smallest_crop: the smallest share of the area that a random crop covers.
    """
    side = max(2 * preprocessing.resize, math.ceil(preprocessing.size / math.sqrt(smallest_crop)))
    return side, side


def _shorten(image: PILImage) -> PILImage:
    """`image`, or the central part of one that is longer than LONGEST times its short side."""
    most = LONGEST * min(image.size)
    if max(image.size) <= most:
        return image
    width, height = (min(side, most) for side in image.size)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height))


def resized_size(size: tuple[int, int], side: int, *, square: bool = False) -> tuple[int, int]:
    """(width, height) after making the short side `side`, the long one rounded down."""
    if square:
        return side, side
    width, height = size
    if width <= height:
        return side, side * height // width
    return side * width // height, side


def random_box(
    size: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    draws: np.random.Generator,
) -> tuple[int, int, int, int]:
    """A random (left, top, right, bottom) inside an image of (width, height)."""
    width, height = size
    for _ in range(CROP_TRIES):
        area = width * height * draws.uniform(*scale)
        shape = math.exp(draws.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            left = int(draws.integers(0, width - w + 1))
            top = int(draws.integers(0, height - h + 1))
            return left, top, left + w, top + h
    w = min(width, max(1, round(height * ratio[1])))
    h = min(height, max(1, round(width / ratio[0])))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


def to_tensor(image: PILImage, *, mirror: bool = False) -> Tensor:
    """An RGB image as uint8 (3, H, W), mirrored left to right on request; one copy."""
    pixels = np.asarray(image)
    if mirror:
        pixels = pixels[:, ::-1]
    return torch.from_numpy(np.array(pixels.transpose(2, 0, 1), order="C"))
