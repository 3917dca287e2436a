"""Evaluation: retrieval metrics, clustering, comparisons, and what each number means."""

from lookalike.evaluation.evaluator import evaluate
from lookalike.evaluation.result import RetrievalResult

__all__ = ["RetrievalResult", "evaluate"]
