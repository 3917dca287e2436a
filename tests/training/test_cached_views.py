"""Which cached views the epochs of a run go through."""

import numpy as np
import torch

from lookalike.training.inputs import CachedInputs


class Numbered:
    """Views whose numbers tell row and view: 10 * row + view; remembers which were asked for."""

    def __init__(self):
        self.made = []

    def ensure(self, views):
        self.made += [view for view in views if view not in self.made]

    def array(self, view):
        assert view in self.made or view == 0
        return np.arange(100, dtype=np.float32)[:, None] * 10 + view

    def rows(self, table):
        return np.arange(len(table)) + 5


def numbered(squares, count, **settings):
    views = Numbered()
    return CachedInputs(views, squares, views=count, **settings), views.made


def test_the_first_epochs_go_through_the_views_and_later_ones_draw(squares):
    inputs, made = numbered(squares, 3, seed=1)
    assert made == []
    rows = [list(range(first, first + 6)) for first in range(0, 36, 6)]
    for epoch, drawn in ((1, [0]), (2, [1]), (3, [2]), (4, [0, 1, 2]), (7, [0, 1, 2])):
        inputs.prepare(epoch)
        found = list(inputs.batches(rows))
        values = torch.cat([batch[:, 0] for batch, _ in found]).numpy().astype(int)
        np.testing.assert_array_equal(values // 10, np.arange(36) + 5)
        assert sorted(set(values % 10)) == drawn
        assert made == list(range(min(max(epoch, 2), 3)))
        assert [labels.tolist() for _, labels in found] == [squares.labels[batch].tolist() for batch in rows]


def test_the_views_of_an_epoch_are_a_function_of_seed_and_epoch(squares):
    def drawn(seed, *epochs):
        inputs, _ = numbered(squares, 2, seed=seed)
        for epoch in epochs:
            inputs.prepare(epoch)
        return next(inputs.batches([list(range(40))]))[0]

    assert torch.equal(drawn(3, 1, 2, 3, 4), drawn(3, 4))
    assert not torch.equal(drawn(3, 3), drawn(3, 4))
    assert not torch.equal(drawn(3, 4), drawn(4, 4))


def test_evaluation_reads_the_first_view_in_order(squares):
    inputs, _ = numbered(squares, 2, block=10)
    inputs.prepare(5)
    whole = torch.cat([plain for (plain,) in inputs.iter_eval()])
    assert whole[:, 0].tolist() == [10 * (row + 5) for row in range(len(squares))]
    first, second = (torch.cat(views) for views in zip(*inputs.iter_eval(7, 31, views=2), strict=True))
    assert torch.equal(first, whole[7:31])
    assert torch.equal(second, whole[7:31] + 1)
