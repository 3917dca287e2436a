"""k-means scores: perfect, chance, both means, and the refusal of the impossible."""

import numpy as np
import pytest

from lookalike.errors import ArgumentError
from lookalike.evaluation import METRICS, cluster_scores, evaluate


def blobs(classes=6, per_class=20, noise=0.02):
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(classes, 8))
    labels = np.repeat(np.arange(classes), per_class)
    return (centers[labels] + noise * generator.normal(size=(len(labels), 8))).astype(np.float32), labels


@pytest.mark.parametrize("engine", ["faiss", "sklearn"])
def test_separate_classes_score_one(engine):
    if engine == "faiss":
        pytest.importorskip("faiss")
    rows, labels = blobs(classes=3)
    scores = cluster_scores(rows, labels, engine=engine)
    assert scores["nmi"] == pytest.approx(1.0)
    assert scores["nmi_geometric"] == pytest.approx(1.0)
    assert scores["ami"] == pytest.approx(1.0)
    assert scores["settings"]["engine"] == engine
    assert scores["settings"]["clusters"] == 3


def test_chance_has_an_ami_of_zero_and_an_nmi_above():
    generator = np.random.default_rng(0)
    scores = cluster_scores(generator.normal(size=(400, 5)), generator.integers(0, 40, 400))
    assert abs(scores["ami"]) < 0.05
    assert scores["nmi"] > 0.3


def test_the_formulas_by_hand():
    """Two classes of two, in clusters of their own each: entropies and information in closed form."""
    labels, clusters = np.array([0, 0, 1, 1]), np.arange(4)
    of_classes, of_clusters, shared = np.log(2), np.log(4), np.log(2)
    assert METRICS["nmi"].of_clusters(labels, clusters) == pytest.approx(
        shared / ((of_classes + of_clusters) / 2)
    )
    geometric = METRICS["nmi_geometric"].of_clusters(labels, clusters)
    assert geometric == pytest.approx(shared / np.sqrt(of_classes * of_clusters))


def test_the_seed_decides():
    rows, labels = blobs(noise=1.5)
    first, second = (cluster_scores(rows, labels, seed=3) for _ in range(2))
    assert first == second


def test_evaluate_carries_the_scores_and_says_how():
    rows, labels = blobs(classes=3)
    result = evaluate(rows, labels, clustering=True)
    assert result.nmi == pytest.approx(1.0)
    engine = result.to_dict()["clustering"]["engine"]
    assert engine in ("faiss", "sklearn")
    assert f"{engine}, 10 starts, seed 0" in result.summary()
    assert "nmi" not in evaluate(rows, labels).values


def test_input_is_left_alone_and_refusals():
    rows, labels = blobs()
    before = rows.copy()
    cluster_scores(rows, labels)
    assert np.array_equal(rows, before)
    with pytest.raises(ArgumentError, match="one per embedding"):
        cluster_scores(rows[:3], labels)
    with pytest.raises(ArgumentError, match="did you mean 'faiss'"):
        cluster_scores(rows, labels, engine="fais")
