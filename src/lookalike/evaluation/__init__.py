"""Evaluation of embeddings: metrics, clustering, confidence intervals and comparisons."""

from lookalike.evaluation.clustering import cluster_scores
from lookalike.evaluation.compare import compare_results, interval_of, interval_over_seeds, load_result
from lookalike.evaluation.evaluator import evaluate
from lookalike.evaluation.files import evaluate_files
from lookalike.evaluation.health import Health, embedding_health
from lookalike.evaluation.intervals import (
    Difference,
    Interval,
    bootstrap_over_classes,
    paired_difference,
    student_interval,
)
from lookalike.evaluation.metrics import (
    DEFAULT_KS,
    METRICS,
    Metric,
    find_metric,
    format_value,
    metric_keys,
    table_keys,
)
from lookalike.evaluation.result import RetrievalResult

__all__ = [
    "DEFAULT_KS",
    "METRICS",
    "Difference",
    "Health",
    "Interval",
    "Metric",
    "RetrievalResult",
    "bootstrap_over_classes",
    "cluster_scores",
    "compare_results",
    "embedding_health",
    "evaluate",
    "evaluate_files",
    "find_metric",
    "format_value",
    "interval_of",
    "interval_over_seeds",
    "load_result",
    "metric_keys",
    "paired_difference",
    "student_interval",
    "table_keys",
]
