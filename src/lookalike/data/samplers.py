"""Which images form a batch: random, or class-balanced (`classes` x `per_class`).

Both are pure functions of (seed, epoch), whatever the number of loader processes. With several ranks all
compute the same global batch and each takes its own disjoint part, as large as that of the others up to one image
(or one class). Give them to a DataLoader as `batch_sampler`; the batch size is the global one.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Sampler

from lookalike.data.dataset import Ints
from lookalike.errors import ArgumentError
from lookalike.utils.validation import check_at_least


class RandomBatches(Sampler[list[int]]):
    """All images in random order.

    With `drop_last` every batch has exactly `batch_size` images and the rest of the epoch's order is not
    used in that epoch. Without it the images are spread over ceil(N / batch_size) batches that differ by
    at most one image, so that no epoch ends on a tiny batch.
    """

    def __init__(
        self,
        labels: Sequence[int] | npt.NDArray[Any],
        *,
        batch_size: int,
        seed: int = 0,
        drop_last: bool = False,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.labels = _labels(labels)
        check_at_least("batch_size", batch_size, 1)
        _check_ranks(rank, world_size, batch_size, "images")
        if drop_last and batch_size > len(self.labels):
            raise ArgumentError(
                f"batches of {batch_size} with drop_last need {batch_size} images, the data has "
                f"{len(self.labels)}; use batch_size {len(self.labels)} or less, or drop_last false"
            )
        if len(self.labels) < world_size:
            raise ArgumentError(f"{len(self.labels)} images cannot be shared by {world_size} ranks")
        self.batch_size = batch_size
        self.seed = seed
        self.drop_last = drop_last
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of epoch `epoch`."""
        self.epoch = epoch

    def __len__(self) -> int:
        count = len(self.labels)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng((self.seed, self.epoch)).permutation(len(self.labels))
        if self.drop_last:
            order = order[: len(self) * self.batch_size]
        for batch in np.array_split(order, len(self)):
            missing = max(0, self.world_size - len(batch))  # no rank may be left without an image
            yield np.concatenate([batch, order[:missing]])[self.rank :: self.world_size].tolist()


class BalancedBatches(Sampler[list[int]]):
    """Batches of `classes` distinct classes with `per_class` images each.

    An epoch uses every image at least once. Inside a batch no image repeats, unless its class has fewer
    than `per_class`. A class with n images appears at least ceil(n / per_class) times; an epoch has as many
    batches as that takes, and the places left over go to the classes drawn least, which makes the draws per class
    as equal as they can be.

    Args:
        labels: (N,), each image's class; absent class numbers are ignored.
        classes, per_class: shape of the global batch.
        seed: with the epoch, chooses the batches.
        rank, world_size: rank r takes the classes r, r + world_size and so on of each batch.

    Raises:
        ArgumentError: more classes asked than there are, or fewer than ranks; with the remedy.
    """

    def __init__(
        self,
        labels: Sequence[int] | npt.NDArray[Any],
        *,
        classes: int,
        per_class: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self.labels = _labels(labels)
        check_at_least("classes", classes, 1)
        check_at_least("per_class", per_class, 1)
        _check_ranks(rank, world_size, classes, "classes")
        self._class_ids, sizes = np.unique(self.labels, return_counts=True)
        if classes > len(self._class_ids):
            raise ArgumentError(_too_many(classes, per_class, len(self._class_ids)))
        by_class = np.argsort(self.labels, kind="stable")
        self._members = np.split(by_class, np.cumsum(sizes)[:-1])
        self.classes = classes
        self.per_class = per_class
        self.batch_size = classes * per_class
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0
        self._appearances = _appearances(sizes, classes, per_class)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the batches of epoch `epoch`."""
        self.epoch = epoch

    def __len__(self) -> int:
        return int(self._appearances.sum()) // self.classes

    def __iter__(self) -> Iterator[list[int]]:
        draws = np.random.default_rng((self.seed, self.epoch))
        queues = [_Queue(members, self.per_class, draws) for members in self._members]
        mine = slice(self.rank, None, self.world_size)
        left = self._appearances.copy()
        for batches_left in range(len(self), 0, -1):
            chosen = _choose(left, batches_left, self.classes, draws)
            left[chosen] -= 1
            images = [queues[c].take() for c in chosen.tolist()]
            yield [i for group in images[mine] for i in group]


def _appearances(sizes: Ints, classes: int, per_class: int) -> Ints:
    """How often each class appears in an epoch: enough for all its images, at most once per batch."""
    least = -(-sizes // per_class)
    batches = max(-(-int(least.sum()) // classes), int(least.max()))
    result: Ints = least.astype(np.int64)
    heap = [(int(n), c) for c, n in enumerate(least) if n < batches]
    heapq.heapify(heap)
    for _ in range(batches * classes - int(least.sum())):
        _, c = heapq.heappop(heap)
        result[c] += 1
        if result[c] < batches:
            heapq.heappush(heap, (int(result[c]), c))
    return result


def _choose(left: Ints, batches_left: int, classes: int, draws: np.random.Generator) -> Ints:
    """`classes` distinct classes, class c with probability left[c] / batches_left.

    The appearances left sum to classes * batches_left and none exceeds batches_left. Laid end to end in
    random order, points one `batches_left` apart hit each class at most once, and surely one that must
    appear in every batch left: the invariant holds for the next batch.
    """
    order = draws.permutation(len(left))
    ends = np.cumsum(left[order])
    points = draws.integers(batches_left) + batches_left * np.arange(classes)
    chosen: Ints = order[np.searchsorted(ends, points, side="right")]
    return draws.permutation(chosen)


class _Queue:
    """Images of one class: each once in random order, then again in a new order, in groups of `size`."""

    def __init__(self, members: Ints, size: int, draws: np.random.Generator) -> None:
        self._members = members
        self._size = size
        self._draws = draws
        self._waiting: list[int] = []

    def take(self) -> list[int]:
        group: list[int] = []
        while len(group) < self._size:
            if not self._waiting:
                again = self._draws.permutation(self._members).tolist()
                taken = set(group)
                # popped from the end: images that this group has already come last
                self._waiting = [i for i in again if i in taken] + [i for i in again if i not in taken]
            group.append(self._waiting.pop())
        return group


def _labels(labels: Sequence[int] | npt.NDArray[Any]) -> Ints:
    array = np.asarray(labels)
    if array.ndim != 1 or not len(array) or not np.issubdtype(array.dtype, np.integer):
        raise ArgumentError(
            f"labels have dtype {array.dtype} and shape {array.shape}; expected one integer per image; of names, "
            "numpy.unique(labels, return_inverse=True)[1] are the class numbers"
        )
    if array.min() < 0:
        raise ArgumentError(f"label {array.min()} of image {int(array.argmin())} is below 0")
    return array.astype(np.int64)


def _check_ranks(rank: int, world_size: int, count: int, what: str) -> None:
    check_at_least("world_size", world_size, 1)
    if not 0 <= rank < world_size:
        raise ArgumentError(f"rank is {rank}; it must be in 0..{world_size - 1}")
    if count < world_size:
        raise ArgumentError(
            f"a batch of {count} {what} cannot be shared by {world_size} processes; use at least {world_size} {what}, "
            "or fewer processes"
        )


def _too_many(classes: int, per_class: int, available: int) -> str:
    batch = classes * per_class
    advice = f"use batch {available * per_class} (classes={available}, per_class={per_class})"
    for wider in range(per_class + 1, batch + 1):
        if batch % wider == 0 and batch // wider <= available:
            advice += f" or keep batch {batch} with per_class {wider} (classes={batch // wider})"
            break
    asked = f"batches of {classes} classes x {per_class} need {classes} classes"
    return f"{asked}, the data has {available}; {advice}"
