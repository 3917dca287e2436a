"""Cached views: each computed once, kept by all that decides its numbers, and drawn from one after the other."""

import numpy as np
import pytest
import torch

from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import TrainTransform
from lookalike.data.transforms import eval_transform as plain_transform
from lookalike.preprocessing import Preprocessing
from lookalike.training.feature_cache import CachedViews, cached_rows
from lookalike.training.inputs import CachedInputs
from lookalike.utils.progress import Progress

PREPROCESSING = Preprocessing(size=24, resize=24)


def views(table, **changes):
    """Views of the images themselves."""
    crops = TrainTransform(PREPROCESSING, scale=(0.3, 0.6), ratio=(1.0, 1.0), flip=changes.pop("flip", 0.5))
    settings = {
        "key": {"weights": "none"},
        "seed": 0,
        "dtype": np.float32,
        "batch_size": 7,
        "workers": 0,
        "device": torch.device("cpu"),
        "progress": Progress(),
        "phase": "reading",
        **changes,
    }
    return CachedViews(settings.pop("function", lambda images: images.float()), table, crops, **settings)


def files(folder):
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.npy")}


def test_views_are_the_image_its_mirror_image_and_crops(squares, own_cache):
    whole, mirrored, crop, other = (views(squares).view(number) for number in range(4))
    dataset = ImageDataset(squares, plain_transform(PREPROCESSING))
    np.testing.assert_array_equal(whole, torch.stack([dataset[row][0] for row in range(len(squares))]))
    np.testing.assert_array_equal(mirrored, whole[..., ::-1])
    assert crop.shape == whole.shape
    assert not np.array_equal(crop, other)
    assert not np.array_equal(crop, whole)


def test_without_mirroring_every_further_view_is_a_crop(squares, own_cache):
    whole, crop = (views(squares, flip=0.0).view(number) for number in range(2))
    assert not np.array_equal(crop, whole)
    assert not np.array_equal(crop, whole[..., ::-1])


def test_a_view_is_computed_once_and_does_not_depend_on_how_many_there_are(squares, own_cache):
    views(squares).view(2)
    made = files(own_cache)
    assert len(made) == 1
    views(squares, seed=1).view(0)
    views(squares, function=lambda images: pytest.fail("computed again"), seed=2).view(0)
    views(squares).view(2)
    assert len(files(own_cache)) == 2
    assert made.items() <= files(own_cache).items()


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"key": {"weights": "others"}}),
        (0, {"dtype": np.float16}),
        (1, {"flip": 0.0}),
        (2, {"seed": 1}),
    ],
)
def test_what_decides_the_numbers_is_in_the_key(squares, own_cache, number, change):
    views(squares).view(number)
    views(squares, **change).view(number)
    assert len(files(own_cache)) == 2


def test_nothing_is_left_of_a_view_that_failed(squares, own_cache):
    def broken(images):
        raise RuntimeError("no memory")

    with pytest.raises(RuntimeError, match="no memory"):
        views(squares, function=broken).view(0)
    assert not [file for file in own_cache.rglob("*") if file.is_file()]


def test_rows_of_an_array_go_through_a_function_block_by_block(own_cache):
    rows = np.random.default_rng(0).random((10, 3), dtype=np.float32)
    doubled = cached_rows(lambda block: 2 * block, rows, {"of": "rows"}, block=4)
    np.testing.assert_array_equal(doubled, 2 * rows)
    again = cached_rows(lambda block: pytest.fail("computed again"), rows, {"of": "rows"})
    np.testing.assert_array_equal(again, doubled)


def numbered(squares, count, **settings):
    """Inputs whose numbers tell row and view: 10 * row + view, and the views made so far."""
    made = []

    def view(number):
        if number not in made:
            made.append(number)
        return np.arange(100, dtype=np.float32)[:, None] * 10 + number

    return CachedInputs(view, squares, np.arange(len(squares)) + 5, views=count, **settings), made


def test_the_first_epochs_go_through_the_views_and_later_ones_draw(squares):
    inputs, made = numbered(squares, 3, seed=1)
    rows = [list(range(first, first + 6)) for first in range(0, 36, 6)]
    for epoch, drawn in ((1, [0]), (2, [1]), (3, [2]), (4, [0, 1, 2]), (7, [0, 1, 2])):
        inputs.set_epoch(epoch)
        found = list(inputs.batches(rows))
        values = torch.cat([batch[:, 0] for batch, _ in found]).numpy().astype(int)
        np.testing.assert_array_equal(values // 10, np.arange(36) + 5)
        assert sorted(set(values % 10)) == drawn
        assert made == list(range(min(epoch, 3)))
        assert [labels.tolist() for _, labels in found] == [squares.labels[batch].tolist() for batch in rows]


def test_the_views_of_an_epoch_are_a_function_of_seed_and_epoch(squares):
    def drawn(seed, *epochs):
        inputs, _ = numbered(squares, 2, seed=seed)
        for epoch in epochs:
            inputs.set_epoch(epoch)
        return next(inputs.batches([list(range(40))]))[0]

    assert torch.equal(drawn(3, 1, 2, 3, 4), drawn(3, 4))
    assert not torch.equal(drawn(3, 3), drawn(3, 4))
    assert not torch.equal(drawn(3, 4), drawn(4, 4))


def test_whole_is_the_first_view_in_order(squares):
    inputs, _ = numbered(squares, 2, block=10)
    inputs.set_epoch(5)
    whole = torch.cat([image for (image,) in inputs.iter_eval()])
    assert whole[:, 0].tolist() == [10 * (row + 5) for row in range(len(squares))]
    assert torch.equal(torch.cat([image for (image,) in inputs.iter_eval(7, 31)]), whole[7:31])
    first, second = (torch.cat(views) for views in zip(*inputs.iter_eval(7, 31, views=2), strict=True))
    assert torch.equal(first, whole[7:31])
    assert torch.equal(second, whole[7:31] + 1)
