"""Negatives ahead of each positive, against loops, with ties, copies and every block size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.ranking import Comparison, QuerySet, Vectors, count_ranks

CPU = torch.device("cpu")


def count(rows, query_set, *, k, block, similarity="dot", memory_mb=100.0):
    """(query, gallery row) -> (ahead, tied)."""
    vectors = Vectors(rows, similarity, what="rows", device=CPU)
    found = {}
    for part in count_ranks(
        Comparison(vectors, vectors, gallery_block=5),
        query_set,
        np.arange(len(query_set)),
        k=k,
        memory_mb=memory_mb,
        query_block=block,
    ):
        owner, index = query_set.positives(part.queries)
        assert np.array_equal(owner, part.owner)
        for query, row, ahead, tied in zip(part.queries[owner], index, part.ahead, part.tied, strict=True):
            found[int(query), int(row)] = int(ahead), int(tied)
    return found


def slow_counts(rows, labels, query):
    """Gallery row of each positive -> (greater, tied, tied with a lower row)."""
    sims = rows.astype(np.float64) @ rows[query].astype(np.float64)
    negatives = [g for g in range(len(rows)) if labels[g] != labels[query]]
    return {
        p: (
            sum(sims[n] > sims[p] for n in negatives),
            sum(sims[n] == sims[p] for n in negatives),
            sum(sims[n] == sims[p] and n < p for n in negatives),
        )
        for p in range(len(rows))
        if labels[p] == labels[query] and p != query
    }


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_counts_equal_loops(data):
    size = data.draw(st.integers(2, 30))
    generator = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = generator.integers(-2, 3, size=(size, 3)).astype(np.float32)
    labels = generator.integers(0, data.draw(st.integers(1, 5)), size)
    k = data.draw(st.sampled_from([1, 3]))
    query_set = QuerySet(labels, labels, np.arange(size))
    found = count(rows, query_set, k=k, block=data.draw(st.sampled_from([None, 1, 4])))
    for query, positives in enumerate(query_set.count_positives()):
        expected = slow_counts(rows, labels, query)
        assert len(expected) == positives
        best = min((greater + before for greater, _, before in expected.values()), default=0)
        assert min((found[query, row][0] for row in expected), default=0) == best
        for row, (greater, tied, before) in expected.items():
            if greater <= max(positives, k):
                assert found[query, row] == (greater + before, tied)
            else:  # out of reach of every metric but MRR
                assert found[query, row] in ((greater + before, 0), (size, 0))


@pytest.mark.parametrize("memory_mb", [0.001, 0.05, 50])
def test_memory_changes_nothing(memory_mb):
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(200, 6)).astype(np.float32), generator.integers(0, 12, 200)
    query_set = QuerySet(labels, labels, np.arange(200))
    reference = count(rows, query_set, k=4, block=200)
    found = count(rows, query_set, k=4, block=None, memory_mb=memory_mb)
    within_reach = [pair for pair, (ahead, _) in reference.items() if ahead <= 4]
    assert within_reach
    assert all(found[pair] == reference[pair] for pair in within_reach)


def test_crowds_of_equal_rows_are_counted_in_float64():
    """A hundred copies of one row: every pair has more undecided negatives than are compared singly."""
    rows = np.repeat(np.array([[0.3, 0.7, 0.1]], dtype=np.float32), 200, axis=0)
    labels = np.arange(200) % 2
    found = count(rows, QuerySet(labels, labels, np.arange(200)), k=1, block=64, similarity="cosine")
    assert all(tied == 100 for _, tied in found.values())
    assert all(ahead == row // 2 + (row % 2 == 1) for (_, row), (ahead, _) in found.items())
