"""The map: PCA by hand, UMAP where installed, and matrices with nothing to spread."""

import sys
import types

import numpy as np
import pytest

from lookalike.reporting import embedding_map
from lookalike.reporting.embedding_map import HEIGHT, WIDTH, draw_map


def test_pca_keeps_order_along_the_largest_direction(squares):
    table = squares.rows(range(6))
    unit = np.array([[0, 0, position] for position in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)], dtype=np.float32)
    drawn = draw_map(table, unit, seed=0)
    xs = {point.x for point in drawn.points}
    assert drawn.method == "PCA"
    assert len(xs) == 6
    assert min(xs) >= 0
    assert max(xs) <= WIDTH
    assert all(point.thumbnail for point in drawn.points)


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (6, 3)])
def test_equal_rows_still_have_a_place(squares, shape):
    drawn = draw_map(squares.rows(range(shape[0])), np.ones(shape, dtype=np.float32), seed=0)
    assert all(0 <= point.x <= WIDTH and 0 <= point.y <= HEIGHT for point in drawn.points)


def test_many_images_are_sampled_by_whole_classes(squares, monkeypatch):
    monkeypatch.setattr(embedding_map, "MOST_POINTS", 10)
    unit = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
    drawn = draw_map(squares, unit, seed=0)
    names = [point.name for point in drawn.points]
    assert drawn.images == len(names) == 8
    assert all(names.count(name) == 4 for name in names)


def test_umap_is_used_where_it_is_installed(squares, monkeypatch):
    class UMAP:
        def __init__(self, **options):
            assert options["random_state"] == 3

        def fit_transform(self, rows):
            return rows[:, :2]

    monkeypatch.setitem(
        sys.modules,
        "umap",
        types.SimpleNamespace(UMAP=UMAP, __spec__=types.SimpleNamespace(origin="umap.py")),
    )
    unit = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
    assert draw_map(squares, unit, seed=3).method == "UMAP"
