"""Cached views: each computed once, kept under everything that decides its numbers, and drawn from one per image."""

import shutil
from collections import Counter
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.errors import ArgumentError, FileError
from lookalike.models.embedder import build_embedder
from lookalike.preprocessing import Preprocessing
from lookalike.training import feature_cache
from lookalike.training.context import PhaseClock
from lookalike.training.feature_cache import FeatureCache, activation_store, check_range
from lookalike.training.trainable import FrozenPart, TrainablePart
from lookalike.utils.distributed import Processes
from lookalike.utils.progress import Progress

PREPROCESSING = Preprocessing(size=24, resize=24)


@dataclass
class Pixels:
    """A frozen part that gives the images themselves, and counts the batches that it sees."""

    weights: str = "none"
    dtype: type = np.float32
    output: str = "activations"
    batches: int = 0

    @property
    def key(self):
        return {"weights": self.weights}

    def before_pooling(self):
        return None

    def for_inference(self):
        def run(images):
            self.batches += 1
            return images.float()

        return run


class Said(Progress):
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


def cache(table, part=None, *, flip=0.5, seed=0):
    context = SimpleNamespace(
        experiment=Experiment().override(["data.workers=0", f"seed={seed}"]),
        fabric=SimpleNamespace(device=torch.device("cpu")),
        processes=Processes(),
        is_main_process=True,
        clock=PhaseClock(),
        progress=Said(),
    )
    crops = TrainTransform(PREPROCESSING, scale=(0.3, 0.6), ratio=(1.0, 1.0), flip=flip)
    return FeatureCache(context, part or Pixels(), table, crops)


def view_of(table, number, part=None, **changes):
    views = cache(table, part, **changes)
    views.ensure([number])
    return views.array(number)


def files(folder):
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*.npy")}


@pytest.mark.parametrize(("local_rank", "filled"), [("0", True), ("1", False)])
def test_one_process_of_another_machine_fills_its_cache(local_rank, filled, squares, own_cache, monkeypatch):
    """The machine is not that of the main process, and does not share its folder."""
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    part = Pixels()
    views = cache(squares, part)
    views.context.is_main_process = False
    if filled:
        views.ensure([0])
    else:
        with pytest.raises(FileError):
            views.ensure([0])
    assert bool(files(own_cache)) == filled


def test_views_are_the_image_its_flip_and_crops(squares, own_cache):
    plain, flipped, crop, other = (view_of(squares, number) for number in range(4))
    dataset = ImageDataset(squares, EvalTransform(PREPROCESSING))
    np.testing.assert_array_equal(plain, torch.stack([dataset[row][0] for row in range(len(squares))]))
    np.testing.assert_array_equal(flipped, plain[..., ::-1])
    assert crop.shape == plain.shape
    assert not np.array_equal(crop, other)
    assert not np.array_equal(crop, plain)


def test_without_flips_every_further_view_is_a_crop(squares, own_cache):
    plain, crop = (view_of(squares, number, flip=0.0) for number in range(2))
    assert not np.array_equal(crop, plain)
    assert not np.array_equal(crop, plain[..., ::-1])


def test_building_a_cache_computes_nothing_and_a_view_is_computed_once(squares, own_cache):
    part = Pixels()
    views = cache(squares, part)
    assert part.batches == 0
    assert not own_cache.exists()
    views.ensure([2])
    computed = part.batches
    views.ensure([2])
    cache(squares, part).ensure([2])
    assert part.batches == computed > 0
    assert len(files(own_cache)) == 1


@pytest.mark.parametrize("output", ["activations", "pooled"])
def test_an_image_and_its_flip_come_from_one_decode_and_have_the_numbers_of_two(
    output, squares, own_cache, monkeypatch
):
    decoded = Counter()
    look_up = ImageDataset.__getitem__

    def counted(dataset, row):
        decoded[row] += 1
        return look_up(dataset, row)

    network = build_embedder("test_resnet", weights="none", size=24).eval()
    part = FrozenPart(network, output, frozen_stages=1)
    apart = [np.array(view_of(squares, number, part)) for number in (0, 1)]
    shutil.rmtree(own_cache)
    monkeypatch.setattr(ImageDataset, "__getitem__", counted)
    views = cache(squares, part)
    views.ensure(range(2))
    assert decoded == dict.fromkeys(range(len(squares)), 1)
    for number in (0, 1):
        np.testing.assert_array_equal(views.array(number), apart[number])


def test_only_the_view_that_is_absent_is_computed(squares, own_cache):
    view_of(squares, 1)
    (there,) = files(own_cache)
    part = Pixels()
    both = cache(squares, part)
    both.ensure(range(2))
    assert part.batches == -(-len(squares) // feature_cache.BATCH)
    assert files(own_cache)[there] == there.stat().st_mtime_ns
    np.testing.assert_array_equal(both.array(1), both.array(0)[..., ::-1])


@pytest.mark.parametrize("changed", ["seed", "flip"])
def test_the_plain_view_does_not_depend_on_the_augmentation(changed, squares, own_cache):
    view_of(squares, 0)
    view_of(squares, 0, **{changed: 1})
    assert len(files(own_cache)) == 1


@pytest.mark.parametrize(
    ("number", "part", "changes"),
    [
        (0, Pixels(weights="others"), {}),
        (0, Pixels(dtype=np.float16), {}),
        (1, Pixels(), {"flip": 0.0}),
        (2, Pixels(), {"seed": 1}),
    ],
)
def test_what_decides_the_numbers_is_in_the_key(squares, own_cache, number, part, changes):
    view_of(squares, number)
    view_of(squares, number, part, **changes)
    assert len(files(own_cache)) == 2


@pytest.mark.parametrize("package", feature_cache.DECIDING)
def test_an_upgrade_of_a_package_that_decides_the_numbers_makes_another_entry(package, squares, monkeypatch):
    before, version = cache(squares).key(0), feature_cache.version
    monkeypatch.setattr(feature_cache, "version", lambda name: "99" if name == package else version(name))
    assert cache(squares).key(0) != before


def test_a_new_format_or_device_makes_another_entry(squares, monkeypatch):
    before, other = cache(squares).key(0), cache(squares)
    other.context.fabric.device = torch.device("cuda")
    assert other.key(0) != before
    monkeypatch.setattr(feature_cache, "FORMAT", -1)
    assert cache(squares).key(0) != before


@pytest.mark.parametrize("damage", ["a flipped bit", "the end is missing"])
def test_a_damaged_entry_is_named_and_computed_again(damage, squares, own_cache):
    whole = np.array(view_of(squares, 0))
    (file,) = files(own_cache)
    content = bytearray(file.read_bytes())
    if damage == "a flipped bit":
        content[-100] ^= 4
    else:
        del content[-100:]
    file.write_bytes(content)
    again = cache(squares)
    again.ensure([0])
    assert again.context.progress.lines == [f"warning: {file} is damaged; computing it again"]
    np.testing.assert_array_equal(again.array(0), whole)


def test_leftovers_of_a_killed_run_are_removed_at_the_next_start(squares, own_cache):
    view_of(squares, 0)
    folder = activation_store().folder
    for name in (".0123.npy.999999.tmp", ".4567.json.999999.tmp", "89ab.npy"):
        (folder / name).write_bytes(b"half")
    view_of(squares, 0)
    assert not list(folder.glob(".*.tmp"))
    assert len(files(own_cache)) == 1


def test_the_least_recently_used_entries_go_first_and_never_the_runs_own(squares, own_cache, monkeypatch):
    for number, seed in ((0, 0), (2, 1), (2, 2)):
        view_of(squares, number, seed=seed)
    sizes = [entry.size for entry in activation_store().entries()]
    view_of(squares, 0)  # used again
    monkeypatch.setenv("LOOKALIKE_CACHE_LIMIT", f"{sum(sizes)}B")
    last = cache(squares, seed=3)
    last.ensure([2])
    kept = [entry.name for entry in activation_store().entries()]
    expected = [(0, 0), (2, 2), (2, 3)]
    assert set(kept) == {activation_store().path(cache(squares, seed=s).key(n)).stem for n, s in expected}
    assert "removed 1 least recently used" in last.context.progress.lines[0]
    monkeypatch.setenv("LOOKALIKE_CACHE_LIMIT", "1B")
    view_of(squares, 2, seed=4)
    assert len(files(own_cache)) == 1


def test_nothing_is_left_of_a_view_that_failed(squares, own_cache):
    part = Pixels()
    part.for_inference = lambda: lambda images: images.no_such_attribute
    with pytest.raises(AttributeError):
        view_of(squares, 0, part)
    assert not [file for file in own_cache.rglob("*") if file.is_file() and file.suffix != ".lock"]


def test_a_cache_that_cannot_be_written_is_named_with_the_variable(squares, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileError, match=r"cannot write to the cache .*LOOKALIKE_CACHE"):
        view_of(squares, 0)


@pytest.mark.parametrize("pooling", ["average", "maximum", "average_plus_maximum", "concat", "k_max"])
def test_pooled_vectors_are_the_networks_own(pooling, squares, own_cache):
    network = build_embedder("test_resnet", weights="none", pooling=pooling, k=2, norm="layer_norm", size=64)
    part = TrainablePart(network.eval(), "frozen").frozen_part()
    dataset = ImageDataset(squares, EvalTransform(network.preprocessing))
    images = torch.stack([dataset[row][0] for row in range(len(squares))])
    views = cache(squares, part)
    views.transform = TrainTransform(network.preprocessing, scale=(0.4, 1.0))
    views.ensure([0])
    with torch.inference_mode():
        expected = network.pool(network.feature_maps(images)).numpy()
    np.testing.assert_allclose(views.array(0), expected, rtol=1e-4, atol=1e-5)
    assert part.key != replace(part, embedder=build_embedder("test_resnet", weights="none", seed=1)).key


@pytest.mark.parametrize(
    ("largest", "dtype", "fits"),
    [(65504, np.float16, True), (7e4, np.float16, False), (7e4, np.float32, True)],
)
def test_activations_that_would_become_infinite_on_disk_are_refused(largest, dtype, fits):
    outputs = torch.tensor([[0.0, -largest]])
    if fits:
        check_range(outputs, dtype)
    else:
        with pytest.raises(ArgumentError, match=r"reach 7e\+04, which float16.*train\.frozen_stages"):
            check_range(outputs, dtype)
