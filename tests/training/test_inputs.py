"""What feeds the training loop: the same images whatever the workers, and workers that stay."""

import multiprocessing
from pathlib import Path

import pytest
import torch

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.preprocessing import Preprocessing
from lookalike.training.inputs import ImageInputs
from toys import colored_squares

PREPROCESSING = Preprocessing(size=32, resize=32)
ROWS = [[5, 2, 9], [40, 0], [7, 63, 1]]


@pytest.fixture
def table(tmp_path: Path) -> LabeledImages:
    return colored_squares(tmp_path / "squares")


def make(table: LabeledImages, workers: int) -> ImageInputs:
    return ImageInputs(
        table, TrainTransform(PREPROCESSING, scale=(0.16, 1)), seed=3, workers=workers, block=10
    )


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_batches_are_the_images_of_the_rows_in_every_epoch(table: LabeledImages, workers: int) -> None:
    inputs = make(table, workers)
    twin = ImageDataset(table, TrainTransform(PREPROCESSING, scale=(0.16, 1)), seed=3)
    for epoch in (1, 2, 7):
        twin.set_epoch(epoch)
        inputs.prepare(epoch)
        found = list(inputs.batches(iter(ROWS)))
        assert len(found) == len(ROWS)
        for rows, (images, labels) in zip(ROWS, found, strict=True):
            assert torch.equal(images, torch.stack([twin[row][0] for row in rows]))
            assert labels.tolist() == [int(table.labels[row]) for row in rows]


@pytest.mark.parametrize("workers", [0, 1])
def test_whole_is_each_image_once_in_order(table: LabeledImages, workers: int) -> None:
    inputs = make(table, workers)
    twin = ImageDataset(table, EvalTransform(PREPROCESSING))
    images = torch.stack([twin[row][0] for row in range(len(table))])
    assert torch.equal(torch.cat([image for (image,) in inputs.iter_eval()]), images)
    assert torch.equal(torch.cat([image for (image,) in inputs.iter_eval(7, 31)]), images[7:31])
    assert [len(batch) for (batch,) in inputs.iter_eval(40)] == [10, 10, 4]
    both = [torch.cat(views) for views in zip(*inputs.iter_eval(views=2), strict=True)]
    assert torch.equal(both[0], images)
    assert torch.equal(both[1], images.flip(-1))
    assert not list(inputs.iter_eval(5, 5))


def test_an_epoch_left_half_way_does_not_reach_into_the_next(table: LabeledImages) -> None:
    inputs = make(table, 1)
    inputs.prepare(1)
    next(inputs.batches(ROWS))
    inputs.prepare(2)
    images, labels = zip(*inputs.batches(ROWS[::-1]), strict=True)
    other = make(table, 0)
    other.prepare(2)
    again, labels_again = zip(*other.batches(ROWS[::-1]), strict=True)
    assert torch.equal(torch.cat(images), torch.cat(again))
    assert torch.equal(torch.cat(labels), torch.cat(labels_again))


def test_the_same_processes_serve_all_epochs(table: LabeledImages) -> None:
    inputs = make(table, 1)
    list(inputs.iter_eval())
    list(inputs.batches(ROWS))
    before = {child.pid for child in multiprocessing.active_children()}
    inputs.prepare(2)
    list(inputs.batches(ROWS))
    assert before
    assert {child.pid for child in multiprocessing.active_children()} == before


@pytest.mark.parametrize("workers", [0, 1])
def test_torchs_own_random_state_is_left_alone(table: LabeledImages, workers: int) -> None:
    inputs = make(table, workers)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for epoch in (1, 2):
        inputs.prepare(epoch)
        list(inputs.batches(ROWS))
        list(inputs.iter_eval())
    assert torch.equal(torch.get_rng_state(), before)
