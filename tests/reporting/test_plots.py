"""Plots take the page's colors and say what they show."""

import numpy as np

from lookalike.reporting.plots import plot_similarities, plot_validation
from lookalike.reporting.similarities import histogram


def test_text_has_the_color_of_the_page():
    history = [{"epoch": 0, "validation": {"mrr": 0.5}}, {"epoch": 1, "validation": {"mrr": 0.7}}]
    svg = plot_validation(history, ("mrr",), 1)
    assert svg.startswith("<svg")
    assert "currentColor" in svg
    assert "#123456" not in svg
    assert "mrr" in svg


def test_histograms_of_no_pairs_and_of_ones():
    none, ones = np.zeros(0, dtype=np.float32), np.full(5, 1.0000001, dtype=np.float32)
    assert "same class" not in plot_similarities(histogram(none, none))
    assert "threshold 0.500" in plot_similarities(histogram(ones, none), 0.5)
