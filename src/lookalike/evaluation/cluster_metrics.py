"""Metrics as pure functions of class labels and k-means clusters."""

from lookalike.evaluation.ranks import Integers


def nmi(labels: Integers, clusters: Integers) -> float:
    """Mutual information normalized by the arithmetic mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters))


def nmi_geometric(labels: Integers, clusters: Integers) -> float:
    """Mutual information normalized by the geometric mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters, average_method="geometric"))


def ami(labels: Integers, clusters: Integers) -> float:
    """Mutual information corrected for chance."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(labels, clusters))
