"""Images come in the order that is asked for, the same from threads and from processes."""

import multiprocessing
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image

from lookalike.data.dataloader import (
    ImageLoader,
    decoding_workers,
    embedding_workers,
    image_batches,
)
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.image_io import ImageError
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.errors import TrainingError
from lookalike.preprocessing import Preprocessing

SIZE = Preprocessing(size=16, resize=16)
COUNT = 23


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> LabeledImages:
    folder = tmp_path_factory.mktemp("images")
    draws = np.random.default_rng(0)
    for number in range(COUNT):
        pixels = draws.integers(0, 255, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:02d}.png")
    paths = tuple(sorted(file.name for file in folder.iterdir()))
    return LabeledImages(folder, paths, np.arange(COUNT) % 3, ("a", "b", "c"))


@pytest.mark.parametrize(("workers", "slow"), [(0, 0.0), (0, 9.0), (1, 0.0), (2, 0.0)])
@pytest.mark.parametrize("rows", [[[3], [22, 0, 3], list(range(COUNT))], [], [[5, 5]]])
def test_batches_are_the_rows_that_were_asked_for(table, workers, slow, rows, threads, monkeypatch):
    monkeypatch.setattr("lookalike.data.dataloader.SLOW", slow)
    dataset = ImageDataset(table, TrainTransform(SIZE, scale=(0.16, 1)), seed=4)
    batches = list(ImageLoader(dataset, workers).batches(iter(rows)))
    assert len(batches) == len(rows)
    for (images, labels), batch in zip(batches, rows, strict=True):
        assert torch.equal(images, torch.stack([dataset[row][0] for row in batch]))
        assert labels.tolist() == [dataset[row][1] for row in batch]
        assert labels.dtype == torch.int64


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 7, COUNT, 100])
def test_all_images_come_once_in_order(table, workers, batch_size):
    dataset = ImageDataset(table, EvalTransform(SIZE))
    batches = list(image_batches(dataset, batch_size=batch_size, workers=workers))
    assert torch.equal(torch.cat(batches), torch.stack([dataset[row][0] for row in range(COUNT)]))
    assert {len(images) for images in batches[:-1]} <= {batch_size}
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(("slow", "where"), [(0.0, {"main", "pool"}), (9.0, {"main"})])
def test_threads_decode_when_an_image_takes_long(table, slow, where, monkeypatch):
    monkeypatch.setattr("lookalike.data.dataloader.SLOW", slow)
    seen = set()

    class Watched(ImageDataset):
        def __getitem__(self, row):
            seen.add("main" if threading.current_thread() is threading.main_thread() else "pool")
            return super().__getitem__(row)

    list(image_batches(Watched(table, EvalTransform(SIZE)), batch_size=8, workers=0))
    assert seen == where


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_image_is_named_in_one_line(table, workers, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and then nothing")
    broken = LabeledImages(tmp_path, ("broken.png",), np.zeros(1, dtype=np.int64), ("a",))
    with pytest.raises(ImageError, match=r"broken\.png") as caught:
        list(image_batches(ImageDataset(broken, EvalTransform(SIZE)), batch_size=4, workers=workers))
    assert "\n" not in str(caught.value)


def test_a_cpu_that_only_embeds_decodes_in_its_own_process(monkeypatch):
    monkeypatch.setattr("lookalike.data.dataloader.available_cpus", lambda: 4)
    assert decoding_workers(None) == 3
    assert embedding_workers(None, "cpu") == 0
    assert embedding_workers(None, torch.device("cuda")) == 3
    for asked in (0, 2):
        assert decoding_workers(asked) == embedding_workers(asked, "cpu") == asked


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("mps", False), ("cuda", True)])
def test_memory_is_pinned_for_a_cuda_gpu_that_is_used_and_not_where_one_is_only_there(
    device, pinned, table, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    loader = ImageLoader(ImageDataset(table, EvalTransform(SIZE)), 1, device=device)
    assert loader._loader.pin_memory == pinned


@pytest.mark.parametrize(("cores", "workers"), [(1, 0), (2, 1), (64, 8)])
def test_decoding_processes_are_one_less_than_cores(cores, workers, monkeypatch):
    monkeypatch.setattr("lookalike.data.dataloader.available_cpus", lambda: cores)
    assert decoding_workers(None) == workers


def test_closed_workers_are_gone_and_the_next_pass_starts_new_ones(table):
    loader = ImageLoader(ImageDataset(table, EvalTransform(SIZE)), 1)
    (first,) = (images for images, _ in loader.batches([[0, 1]]))
    (worker,) = loader._loader._iterator._workers
    loader.close()
    assert not worker.is_alive()
    (again,) = (images for images, _ in loader.batches([[0, 1]]))
    assert torch.equal(first, again)
    loader.close()


@pytest.mark.parametrize(
    ("ended", "kind"), [([0], signal.SIGKILL), ([0, 1], signal.SIGKILL), ([0, 1], signal.SIGBUS)]
)
def test_ended_workers_are_one_line_where_a_batch_is_awaited_and_nowhere_else(table, ended, kind):
    before = signal.getsignal(signal.SIGCHLD)
    loader = ImageLoader(ImageDataset(table, EvalTransform(SIZE)), 2)
    batches = loader.batches([[row % COUNT] for row in range(100)])
    next(batches)
    assert signal.getsignal(signal.SIGCHLD) == before
    for worker in ended:
        os.kill(loader._loader._iterator._workers[worker].pid, kind)
        time.sleep(0.1)  # nothing is raised here
    setting = "--shm-size" if kind == signal.SIGBUS else r"set data\.workers lower"
    with pytest.raises(TrainingError, match=setting) as caught:
        list(batches)
    assert "\n" not in str(caught.value)
    assert signal.getsignal(signal.SIGCHLD) == before
