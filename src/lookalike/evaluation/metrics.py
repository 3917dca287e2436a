"""METRICS: every metric, one entry each. Values, keys, reports, the command line and the docs iterate it.

A metric is a function of the ranks of a query's positives (`of_ranks`), of these and K (`of_ranks_at_k`), or
of class labels and k-means clusters (`of_clusters`). To add one, write the function and add an entry.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lookalike.errors import UnknownNameError
from lookalike.evaluation import cluster_metrics, ranks
from lookalike.evaluation.ranks import Floats, Integers, Ranks
from lookalike.utils.validation import near_miss

DEFAULT_KS = (1, 2, 4, 8)
"""The K of Recall@K everywhere, unless others are asked for."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One metric: how it is computed, how it is shown, and what it means.

    Attributes:
        key: in results and JSON; `_k` at the end stands for the number K.
        title: heading of the docs' section.
        formula, meaning: of one query's value.
        elsewhere: what papers and other libraries call it, and what else they mean by its name.
        of_ranks, of_ranks_at_k, of_clusters: the function; exactly one of the three.
        higher_is_better: direction.
        percent: whether tables show it in percent.
        in_tables: whether tables of a run show it.
    """

    key: str
    title: str
    formula: str
    meaning: str
    elsewhere: str
    of_ranks: Callable[[Ranks], Floats] | None = None
    of_ranks_at_k: Callable[[Ranks, int], Floats] | None = None
    of_clusters: Callable[[Integers, Integers], float] | None = None
    higher_is_better: bool = True
    percent: bool = True
    in_tables: bool = True

    def keys(self, ks: Iterable[int]) -> list[str]:
        """Result keys: one per K, or the one key."""
        if self.of_ranks_at_k is None:
            return [self.key]
        return [f"{self.key.removesuffix('_k')}_{k}" for k in ks]

    def compute(self, found: Ranks, ks: Sequence[int]) -> list[Floats]:
        """Values per query, in the order of `keys`; none for a metric of clusters."""
        if self.of_ranks_at_k is not None:
            return [self.of_ranks_at_k(found, k) for k in ks]
        return [] if self.of_ranks is None else [self.of_ranks(found)]


NOTATION = (
    "For each query: R = gallery rows of its class (its own row never counts), "
    "h_k = how many of them are among the k nearest, rank_m = rank of the m-th nearest of them. "
    "A query with R = 0 has no match: it is left out and counted, or scores 0 with no_match='miss'. "
    "Values are means over queries; class_average is the mean over classes of each class's mean."
)
"""What the formulas are written in."""


_ENTRIES = (
    Metric(
        key="recall_at_k",
        title="Recall@K",
        formula="1 if h_k >= 1 else 0",
        meaning="Whether any of the k nearest has the query's class: the papers' Recall@K, a hit rate.",
        elsewhere="recall@k in metric-learning papers, CMC@k in re-identification, hit rate or success@k in "
        "recommendation. Information retrieval's recall@k is ir_recall_at_k here. At k = 1 it equals "
        "precision_at_1, which pytorch-metric-learning reports. The papers' code counts queries without "
        "positives as misses (no_match='miss').",
        of_ranks_at_k=ranks.recall_at_k,
    ),
    Metric(
        key="precision_at_k",
        title="Precision@K",
        formula="h_k / k",
        meaning="The share of the k nearest that have the query's class; below 1 by construction if R < k.",
        elsewhere="torchmetrics' retrieval precision takes scores <= 0 as not retrieved, which changes it for "
        "negative cosines.",
        of_ranks_at_k=ranks.precision_at_k,
        in_tables=False,
    ),
    Metric(
        key="ir_recall_at_k",
        title="Recall@K of information retrieval",
        formula="h_k / R",
        meaning="The share of the query's positives among the k nearest; below 1 by construction if R > k.",
        elsewhere="recall@k in information retrieval, torchmetrics and libraries in scikit-learn's style.",
        of_ranks_at_k=ranks.ir_recall_at_k,
        in_tables=False,
    ),
    Metric(
        key="map_at_r",
        title="MAP@R",
        formula="(1/R) sum over m with rank_m <= R of m / rank_m",
        meaning="Precision at each positive among the R nearest, summed and divided by R: order counts, and "
        "a missing positive costs.",
        elsewhere="mean_average_precision_at_r in pytorch-metric-learning, whose mean_average_precision also "
        "divides by R but sums over all its k neighbors. OpenMetricLearning's map@k divides by the hits "
        "among the k, TensorFlow Similarity's by R; Roth et al.'s mAP_c by the class size including the "
        "query, so that a perfect ranking stays below 1.",
        of_ranks=ranks.map_at_r,
    ),
    Metric(
        key="r_precision",
        title="R-precision",
        formula="h_R / R",
        meaning="Precision, and recall, among the R nearest.",
        elsewhere="The same in pytorch-metric-learning, which also leaves out queries with R = 0.",
        of_ranks=ranks.r_precision,
    ),
    Metric(
        key="mrr",
        title="Mean reciprocal rank",
        formula="1 / rank_1",
        meaning="One over the rank of the nearest positive.",
        elsewhere="mean_reciprocal_rank in pytorch-metric-learning, where a query whose positives all lie beyond "
        "its k neighbors has 0; here the rank is exact, however large.",
        of_ranks=ranks.mrr,
    ),
    Metric(
        key="nmi",
        title="Normalized mutual information",
        formula="I(classes, clusters) / ((H(classes) + H(clusters)) / 2)",
        meaning="Agreement of k-means clusters, as many as classes, with the classes. It depends on the "
        "k-means engine and its seed.",
        elsewhere="The arithmetic mean, as in SoftTriple, ProxyGML and scikit-learn since 0.22.",
        of_clusters=cluster_metrics.nmi,
    ),
    Metric(
        key="nmi_geometric",
        title="NMI with the geometric mean",
        formula="I(classes, clusters) / sqrt(H(classes) H(clusters))",
        meaning="The same with the geometric mean of the entropies; never below nmi.",
        elsewhere="ProxyNCA++'s code and scikit-learn up to 0.21; its paper prints the arithmetic formula.",
        of_clusters=cluster_metrics.nmi_geometric,
        in_tables=False,
    ),
    Metric(
        key="ami",
        title="Adjusted mutual information",
        formula="(I - E[I]) / ((H(classes) + H(clusters)) / 2 - E[I])",
        meaning="NMI corrected for chance: 0 for random clusters of the same sizes, and it can be negative.",
        elsewhere="AMI in pytorch-metric-learning; both call scikit-learn's function.",
        of_clusters=cluster_metrics.ami,
    ),
)

METRICS: dict[str, Metric] = {metric.key: metric for metric in _ENTRIES}


def metric_keys(ks: Iterable[int] = DEFAULT_KS) -> list[str]:
    """Result keys of all metrics, in the order of METRICS."""
    ks = list(ks)
    return [key for metric in METRICS.values() for key in metric.keys(ks)]


def table_keys(keys: Iterable[str]) -> list[str]:
    """Those of `keys` that name a metric which tables show, in the order of METRICS, K ascending."""
    keys = set(keys)
    ks = sorted({int(key.rpartition("_")[2]) for key in keys if key.rpartition("_")[2].isdecimal()})
    return [key for metric in METRICS.values() if metric.in_tables for key in metric.keys(ks) if key in keys]


def format_value(key: str, value: float | None) -> str:
    """A metric's value in tables: percent with two decimals where the metric says so; - for none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{100 * value:.2f}" if find_metric(key).percent else f"{value:.4g}"


def find_metric(key: str) -> Metric:
    """The metric that a result key names: `recall_at_10` is `recall_at_k`.

    Training, studies and the command line refuse mistyped metric names through this function.

    Raises:
        UnknownNameError: no such metric; the message has the near miss and every known name.
    """
    stem, _, number = key.rpartition("_")
    per_k = METRICS.get(f"{stem}_k") if number.isdecimal() and int(number) > 0 else None
    if key in METRICS:
        return METRICS[key]
    if per_k is not None and per_k.of_ranks_at_k is not None:
        return per_k
    spelled = metric_keys([int(number) if number.isdecimal() else 1])
    raise UnknownNameError(
        f"unknown metric '{key}'{near_miss(key.lower(), spelled)} (known: {', '.join(METRICS)}; k stands for a number)"
    )
