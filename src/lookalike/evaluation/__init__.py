"""Evaluation of embeddings: metrics, clustering, confidence intervals and comparisons."""

from lookalike.evaluation.clustering import cluster_scores as cluster_scores
from lookalike.evaluation.compare import compare_results as compare_results
from lookalike.evaluation.compare import interval_of as interval_of
from lookalike.evaluation.compare import interval_over_seeds as interval_over_seeds
from lookalike.evaluation.compare import load_result as load_result
from lookalike.evaluation.evaluator import check_options as check_options
from lookalike.evaluation.evaluator import evaluate as evaluate
from lookalike.evaluation.files import evaluate_files as evaluate_files
from lookalike.evaluation.health import Health as Health
from lookalike.evaluation.health import embedding_health as embedding_health
from lookalike.evaluation.intervals import Difference as Difference
from lookalike.evaluation.intervals import Interval as Interval
from lookalike.evaluation.intervals import bootstrap_over_classes as bootstrap_over_classes
from lookalike.evaluation.intervals import gain_over_classes as gain_over_classes
from lookalike.evaluation.intervals import paired_difference as paired_difference
from lookalike.evaluation.intervals import student_interval as student_interval
from lookalike.evaluation.metrics import DEFAULT_KS as DEFAULT_KS
from lookalike.evaluation.metrics import METRICS as METRICS
from lookalike.evaluation.metrics import Metric as Metric
from lookalike.evaluation.metrics import find_metric as find_metric
from lookalike.evaluation.metrics import format_value as format_value
from lookalike.evaluation.metrics import metric_keys as metric_keys
from lookalike.evaluation.metrics import table_keys as table_keys
from lookalike.evaluation.result import RetrievalResult as RetrievalResult
