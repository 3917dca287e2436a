"""pytorch-metric-learning's AccuracyCalculator: the same where the definitions agree, and why where not."""

import warnings

import numpy as np
import pytest
import torch

from lookalike.evaluation import evaluate

pytest.importorskip("faiss")


@pytest.fixture(scope="module")
def calculate():
    """The calculator on unit vectors, as a dict; its metrics that need k-means are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pytorch_metric_learning.distances import CosineSimilarity
        from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
        from pytorch_metric_learning.utils.inference import CustomKNN

    def run(rows, labels, k, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            calculator = AccuracyCalculator(
                exclude=("NMI", "AMI"),
                k=k,
                device=torch.device("cpu"),
                knn_func=CustomKNN(CosineSimilarity()),
                **options,
            )
            return calculator.get_accuracy(torch.as_tensor(rows), torch.as_tensor(labels))

    return run


def classes(seed, count=120, number=9, singles=0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, number, count)
    if singles:
        labels[:singles] = number + np.arange(singles)
    rows = generator.normal(size=(number + singles, 10))[labels] + 1.2 * generator.normal(size=(count, 10))
    return rows.astype(np.float32), labels


@pytest.mark.parametrize("seed", range(5))
def test_the_same_where_definitions_agree(calculate, seed):
    """Random vectors have no ties; everyone has something to find."""
    rows, labels = classes(seed)
    ours, theirs = evaluate(rows, labels), calculate(rows, labels, "max_bin_count")
    assert ours.recall_at_1 == pytest.approx(theirs["precision_at_1"], abs=1e-6)
    assert ours.r_precision == pytest.approx(theirs["r_precision"], abs=1e-6)
    assert ours.map_at_r == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)
    assert ours.mrr == pytest.approx(calculate(rows, labels, None)["mean_reciprocal_rank"], abs=1e-6)


def test_average_over_classes_agrees(calculate):
    rows, labels = classes(7)
    theirs = calculate(rows, labels, "max_bin_count", avg_of_avgs=True)
    ours = evaluate(rows, labels).class_average
    assert ours["map_at_r"] == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


def test_both_leave_out_singletons_and_only_ours_counts_them(calculate):
    rows, labels = classes(8, singles=4)
    ours, theirs = evaluate(rows, labels), calculate(rows, labels, "max_bin_count")
    assert ours.recall_at_1 == pytest.approx(theirs["precision_at_1"], abs=1e-6)
    assert ours.counts["no_match"] == 4


def test_reciprocal_rank_beyond_k_is_zero_there_and_exact_here(calculate):
    """Theirs looks at k neighbors; ours counts the negatives ahead, however many."""
    rows, labels = classes(9, number=40)
    assert evaluate(rows, labels).mrr > calculate(rows, labels, 1)["mean_reciprocal_rank"]


def test_k_beyond_the_gallery_is_clipped_here(calculate):
    """Theirs counts padding as neighbors and can exceed 1; ours clips K and reports it."""
    rows, labels = classes(10, count=10, number=2)
    ours = evaluate(rows, labels, ks=(50,))
    assert ours.counts["clipped_k"] == {"50": 9}
    assert all(value <= 1 for value in ours.values.values())


def test_average_precision_continues_beyond_r_there(calculate):
    """Their mean_average_precision sums over every neighbor; MAP@R stops at the R-th, theirs and ours."""
    rows, labels = classes(11)
    theirs = calculate(rows, labels, None)
    assert theirs["mean_average_precision"] > theirs["mean_average_precision_at_r"]
    assert evaluate(rows, labels).map_at_r == pytest.approx(theirs["mean_average_precision_at_r"], abs=1e-6)


def test_ties_are_ordered_by_their_library_and_by_a_rule_here(calculate):
    """Copies of one row with different labels: ours come by index; theirs depend on the top-k routine."""
    rows = np.ones((4, 3), dtype=np.float32)
    labels = np.array([0, 1, 1, 0])
    ours = evaluate(rows, labels, ks=(1,))
    assert ours.recall_at_1 == 0.25  # only the last row comes first to its own class
    assert ours.counts["tied_queries"] == 4
    assert 0 <= calculate(rows, labels, "max_bin_count")["precision_at_1"] <= 1
