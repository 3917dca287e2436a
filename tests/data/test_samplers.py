import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from lookalike.data.samplers import BalancedBatches, RandomBatches
from lookalike.errors import ArgumentError

LONG_TAIL = [0] * 70 + [c for c in range(1, 21) for _ in range(6)]


def labels_of(sizes):
    return [c for c, n in enumerate(sizes) for _ in range(n)]


shapes = st.tuples(st.lists(st.integers(0, 9), min_size=3, max_size=12), st.integers(1, 4), st.integers(1, 5))


@given(shapes, st.integers(0, 2))
@settings(deadline=None)
def test_balanced_batches_obey_their_laws(shape, epoch):
    sizes, classes, per_class = shape
    labels = labels_of(sizes)
    present = sum(n > 0 for n in sizes)
    if present == 0:
        return
    classes = min(classes, present)
    sampler = BalancedBatches(labels, classes=classes, per_class=per_class)
    sampler.set_epoch(epoch)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    for batch in batches:
        drawn = Counter(labels[i] for i in batch)
        assert set(drawn.values()) == {per_class}
        assert len(drawn) == classes
        for c in drawn:
            images = [i for i in batch if labels[i] == c]
            assert len(set(images)) == min(per_class, sizes[c])
    assert {i for batch in batches for i in batch} == set(range(len(labels)))


def test_classes_are_drawn_equally_often_where_that_can_be():
    batches = BalancedBatches(LONG_TAIL, classes=8, per_class=2)
    drawn = np.bincount([LONG_TAIL[i] for batch in batches for i in batch])
    assert drawn[0] == 70  # its 70 images need 35 appearances, one in each of 35 batches
    assert set(drawn[1:].tolist()) == {24, 26}  # (35 * 8 - 35) / 20 = 12.25 appearances


def test_no_class_is_favored_by_the_order_of_classes():
    sampler = BalancedBatches(labels_of([8] * 12), classes=3, per_class=2)
    together = np.zeros((12, 12))
    for epoch in range(60):
        sampler.set_epoch(epoch)
        for batch in sampler:
            drawn = sorted({i // 8 for i in batch})
            for a in drawn:
                for b in drawn:
                    together[a, b] += a != b
    pairs = together[np.triu_indices(12, 1)]
    assert pairs.min() > 0.6 * pairs.mean()
    assert pairs.max() < 1.4 * pairs.mean()


@pytest.mark.parametrize(
    "make",
    [
        lambda **k: RandomBatches(LONG_TAIL, batch_size=12, **k),
        lambda **k: RandomBatches(LONG_TAIL, batch_size=12, drop_last=True, **k),
        lambda **k: BalancedBatches(LONG_TAIL, classes=6, per_class=2, **k),
    ],
)
class TestBoth:
    def test_the_same_seed_and_epoch_give_the_same_batches(self, make):
        def batches(epoch, **settings):
            sampler = make(**settings)
            sampler.set_epoch(epoch)
            return list(sampler)

        assert batches(3, seed=1) == batches(3, seed=1)
        assert batches(3, seed=1) != batches(4, seed=1)
        assert batches(3, seed=1) != batches(3, seed=2)

    def test_global_random_state_is_neither_used_nor_changed(self, make):
        before, torch_before = np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
        one = list(make())
        assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), torch_before)
        np.random.random(3)  # noqa: NPY002
        torch.rand(3)
        assert list(make()) == one

    @pytest.mark.parametrize("world", [2, 3, 4, 5])
    def test_ranks_share_the_global_batch(self, make, world):
        whole = list(make())
        ranks = [list(make(rank=r, world_size=world)) for r in range(world)]
        for batch, *shares in zip(whole, *ranks, strict=True):
            assert min(map(len, shares)) > 0
            assert Counter(i for share in shares for i in share) == Counter(batch)


def test_random_batches_use_each_image_once_and_end_on_no_tiny_batch():
    batches = list(RandomBatches(list(range(101)), batch_size=10))
    assert sorted(i for batch in batches for i in batch) == list(range(101))
    assert {len(batch) for batch in batches} == {9, 10}
    assert len(batches) == 11


@pytest.mark.parametrize("world", [2, 3, 4, 6, 7, 8])
def test_the_default_batch_can_be_shared_by_any_number_of_gpus(world):
    shares = [list(RandomBatches([0] * 200, batch_size=90, rank=r, world_size=world)) for r in range(world)]
    for step in zip(*shares, strict=True):
        sizes = [len(share) for share in step]
        assert max(sizes) - min(sizes) <= 1


def test_no_rank_is_left_without_an_image():
    shares = [list(RandomBatches([0] * 5, batch_size=4, rank=r, world_size=4)) for r in range(4)]
    for step in zip(*shares, strict=True):
        assert [len(share) for share in step] == [1, 1, 1, 1]


def test_drop_last_keeps_batches_whole():
    assert [len(b) for b in RandomBatches([0] * 25, batch_size=10, drop_last=True)] == [10, 10]


def test_labels_may_be_tensors_or_small_integers():
    for labels in (torch.tensor([0, 1, 1]), np.array([0, 1, 1], dtype=np.uint8)):
        assert len(list(RandomBatches(labels, batch_size=2))) == 2


def test_impossible_requests_say_what_would_work():
    five = labels_of([8] * 5)
    with pytest.raises(
        ArgumentError, match=r"use batch 20 \(classes=5, per_class=4\) or keep batch 32 with per_class 8"
    ):
        BalancedBatches(five, classes=8, per_class=4)
    with pytest.raises(
        ArgumentError, match="5 classes cannot be shared by 6 processes; use at least 6 classes"
    ):
        BalancedBatches(five, classes=5, per_class=4, world_size=6)
    with pytest.raises(ArgumentError, match="use batch_size 40 or less"):
        RandomBatches(five, batch_size=180, drop_last=True)
    with pytest.raises(ArgumentError, match="label -1 of image 1 is below 0"):
        RandomBatches([0, -1], batch_size=1)


def test_a_loader_takes_them_as_batch_sampler():
    sampler = BalancedBatches(LONG_TAIL, classes=5, per_class=2)
    loader = DataLoader(torch.arange(len(LONG_TAIL)), batch_sampler=sampler)
    assert [batch.tolist() for batch in loader] == list(sampler)


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_sampler_of_the_page_gives_every_class_the_same_chance(ranks):
    """docs/how_to/add_a_sampler.md"""
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "add_a_sampler.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope = {}
    exec(compile(code, "add_a_sampler.md", "exec"), scope)
    labels = np.repeat([0, 1, 2, 3], [900, 90, 9, 1])
    parts = [
        scope["ClassUniformBatches"](labels, batch_size=100, rank=rank, world_size=ranks)
        for rank in range(ranks)
    ]
    drawn = []
    for epoch in (1, 2):
        for part in parts:
            part.set_epoch(epoch)
        batches = [np.concatenate(shares) for shares in zip(*parts, strict=True)]
        assert [len(batch) for batch in batches] == [100] * 10 == [100] * len(parts[0])
        drawn.append(np.concatenate(batches))
    assert not np.array_equal(*drawn)
    chances = np.bincount(labels[np.concatenate(drawn)], minlength=4) / 2000
    np.testing.assert_allclose(chances, 0.25, atol=0.05)
