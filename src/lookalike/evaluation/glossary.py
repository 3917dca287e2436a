"""What each number means, and what other libraries call by the same name.

`lookalike metrics --explain` prints this; a test checks that every metric of a result is explained.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """One metric: its formula, one sentence, and who means what by the name."""

    key: str
    formula: str
    meaning: str
    elsewhere: str


NOTATION = (
    "For each query: R = rows of its class that can be found (its own row never counts), "
    "h_k = how many of them are among the k nearest, rank_m = rank of the m-th nearest of them. "
    "A query with R = 0 has nothing to find: left out and counted, or a miss with lone='miss'. "
    "Values are means over queries; class_average is the mean over classes of each class's mean."
)

METRICS: dict[str, Explanation] = {
    "recall_at_k": Explanation(
        "recall_at_k",
        "1 if h_k >= 1 else 0",
        "Does any of the k nearest belong to the query's class? The papers' Recall@K: a hit rate.",
        "Called recall@k in metric-learning papers, CMC@k in re-identification, hit rate or success@k in "
        "recommendation. Information retrieval's recall@k is ir_recall_at_k here. At k = 1 it equals "
        "precision_at_1, which pytorch-metric-learning reports. The papers' code counts queries without an "
        "answer as misses (lone='miss').",
    ),
    "precision_at_k": Explanation(
        "precision_at_k",
        "h_k / k",
        "The share of the k nearest that belong to the query's class; below 1 by construction when R < k.",
        "torchmetrics' retrieval precision takes scores <= 0 as not retrieved: negative cosines change it.",
    ),
    "ir_recall_at_k": Explanation(
        "ir_recall_at_k",
        "h_k / R",
        "The share of what can be found that is among the k nearest; below 1 by construction when R > k.",
        "Information retrieval, torchmetrics and scikit-learn style libraries call this recall@k.",
    ),
    "r_precision": Explanation(
        "r_precision",
        "h_R / R",
        "Precision, and recall, at the number of rows there are to find.",
        "The same in pytorch-metric-learning, which leaves out queries with R = 0 as we do by default.",
    ),
    "map_at_r": Explanation(
        "map_at_r",
        "(1/R) sum over m with rank_m <= R of m / rank_m",
        "Precision at every hit among the R nearest, divided by R: order counts, and a miss costs.",
        "mean_average_precision_at_r in pytorch-metric-learning; its mean_average_precision also divides by "
        "R but sums over all its k neighbors. OpenMetricLearning's map@k divides by the hits found, "
        "TensorFlow Similarity's by R; Roth et al.'s mAP_c by the class size including the query, so that a "
        "perfect ranking stays below 1.",
    ),
    "mrr": Explanation(
        "mrr",
        "1 / rank_1",
        "One over the rank of the nearest right row.",
        "mean_reciprocal_rank in pytorch-metric-learning: there a query whose right row lies beyond its k "
        "neighbors counts 0; here the rank is exact however far down.",
    ),
    "nmi": Explanation(
        "nmi",
        "I(classes, clusters) / ((H(classes) + H(clusters)) / 2)",
        "Do k-means clusters, as many as classes, agree with the classes? Depends on engine and seed.",
        "The arithmetic mean, as in SoftTriple, ProxyGML and scikit-learn since 0.22.",
    ),
    "nmi_geometric": Explanation(
        "nmi_geometric",
        "I(classes, clusters) / sqrt(H(classes) H(clusters))",
        "The same with the geometric mean; never below nmi.",
        "ProxyNCA++'s code and scikit-learn up to 0.21; its paper prints the arithmetic formula.",
    ),
    "ami": Explanation(
        "ami",
        "(I - E[I]) / ((H(classes) + H(clusters)) / 2 - E[I])",
        "NMI less what random clusters of the same sizes would get; 0 for chance, can be slightly negative.",
        "AMI in pytorch-metric-learning, by scikit-learn's function.",
    ),
}


def explain(key: str) -> Explanation:
    """The explanation of a metric key; `recall_at_10` is explained as `recall_at_k`.

    Raises:
        UnknownNameError: no such metric.
    """
    from lookalike.utils.validation import look_up

    stem, _, number = key.rpartition("_")
    return look_up(METRICS, f"{stem}_k" if number.isdigit() else key, "metric")
