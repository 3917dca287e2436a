"""NMI and AMI: agreement of clusters with classes.

I(Y, C) = sum over classes y and clusters c of p(y, c) log( p(y, c) / (p(y) p(c)) ),  H: entropies
nmi            = I / ((H(Y) + H(C)) / 2)
nmi_geometric  = I / sqrt(H(Y) H(C))
ami            = (I - E[I]) / ((H(Y) + H(C)) / 2 - E[I]), E over partitions with the same cluster sizes
"""

from lookalike.evaluation.ranks import Integers


def nmi(labels: Integers, clusters: Integers) -> float:
    """Normalized by the arithmetic mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters))


def nmi_geometric(labels: Integers, clusters: Integers) -> float:
    """Normalized by the geometric mean of the entropies."""
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(labels, clusters, average_method="geometric"))


def ami(labels: Integers, clusters: Integers) -> float:
    """Corrected for chance."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(labels, clusters))
