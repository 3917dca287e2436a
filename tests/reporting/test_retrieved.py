"""Hits, confusions and similarities of a report, by hand."""

import numpy as np
import pytest

from lookalike.data.dataset import LabeledImages
from lookalike.reporting.retrieved import find_confusions, pair_similarities, retrieve

ANGLES = {"oak": (0, 50), "elm": (1, 52), "ash": (80, 85)}


@pytest.fixture
def found():
    """Three trees, two images each, on a circle: oak and elm lie in pairs of one each."""
    angles = np.radians(np.array([angle for pair in ANGLES.values() for angle in pair], dtype=np.float64))
    embeddings = (3 * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)
    table = LabeledImages(
        "/nowhere", tuple(f"{i}.png" for i in range(6)), np.repeat([0, 1, 2], 2), tuple(ANGLES), name="trees"
    )
    return retrieve(table, embeddings, k=2, seed=0)


def test_hits_and_their_classes(found):
    assert found.hits[:, 0].tolist() == [2, 3, 0, 1, 5, 4]
    assert found.correct[:, 0].tolist() == [False, False, False, False, True, True]
    assert found.similarities[0, 0] == pytest.approx(np.cos(np.radians(1)))
    assert found.class_name(2) == "elm"


def test_nearest_positive_has_its_rank(found):
    row, similarity, rank = found.nearest_positive(0)
    assert (row, rank) == (1, 2)
    assert similarity == pytest.approx(np.cos(np.radians(50)), abs=1e-6)


def test_confusions_count_both_directions(found):
    (one,) = find_confusions(found, most=5)
    assert (one.first, one.second) == (0, 1)
    assert one.mistaken == (2, 2)
    assert one.queries == (2, 2)
    assert found.queries[one.example] in (0, 2)  # 1 degree apart, the most similar mistake


def test_pairs_are_split_by_class_without_own_rows(found):
    positives, negatives = pair_similarities(found, seed=0)
    assert len(positives) == 6
    assert len(negatives) == 24
    assert positives.max() == pytest.approx(np.cos(np.radians(5)), abs=1e-6)
    assert negatives.max() == pytest.approx(np.cos(np.radians(1)), abs=1e-6)


def test_query_and_gallery_roles_are_kept():
    table = LabeledImages(
        "/nowhere",
        tuple(f"{i}.png" for i in range(4)),
        np.array([0, 1, 0, 1]),
        ("a", "b"),
        role=np.array(["query", "query", "gallery", "gallery"]),
        name="roles",
    )
    embeddings = np.array([[1, 0], [0, 1], [1, 0.1], [0.1, 1]], dtype=np.float32)
    found = retrieve(table, embeddings, k=5, seed=0)
    assert found.hits.tolist() == [[2, 3], [3, 2]]
    assert find_confusions(found, most=5) == []
