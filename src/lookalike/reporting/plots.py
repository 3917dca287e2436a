"""Curves and histograms as SVG text that takes the page's colors; the only place that uses matplotlib."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

_TEXT = "#123456"  # stands for the page's text color until the SVG is written
_COLORS = {"first": "#2f7fd1", "second": "#e08a1e", "right": "#2a9d4e", "wrong": "#d1492f"}


def plot_validation(history: Sequence[dict[str, Any]], keys: Sequence[str], chosen: int) -> Markup:
    """Metrics of the validation classes over epochs, the chosen epoch marked."""
    figure, axes = _figure()
    epochs = [record["epoch"] for record in history]
    for key, color in zip(keys, ("first", "second"), strict=False):
        values = [_percent(record["validation"].get(key)) for record in history]
        axes.plot(epochs, values, marker="o", ms=3.5, lw=1.5, label=key, color=_COLORS[color])
    axes.axvline(chosen, color=_TEXT, lw=0.8, ls=":")
    axes.set(xlabel="epoch (0: before training; dotted: chosen)", ylabel="percent")
    axes.legend(frameon=False, labelcolor=_TEXT)
    return _svg(figure, "Validation metrics over epochs")


def plot_loss(history: Sequence[dict[str, Any]]) -> Markup:
    """Training loss over epochs."""
    figure, axes = _figure()
    trained = [record for record in history if record["loss"] is not None]
    axes.plot(
        [record["epoch"] for record in trained],
        [record["loss"] for record in trained],
        marker="o",
        ms=3.5,
        lw=1.5,
        color=_COLORS["first"],
    )
    axes.set(xlabel="epoch", ylabel="training loss")
    return _svg(figure, "Training loss over epochs")


def plot_similarities(
    positives: NDArray[np.float32], negatives: NDArray[np.float32], threshold: float | None
) -> Markup:
    """Histograms of the cosines of positive and negative pairs, each with area 1."""
    figure, axes = _figure(integer=False)
    low = min((float(values.min()) for values in (positives, negatives) if len(values)), default=-1.0)
    edges = np.linspace(min(low, 0.0), 1.0, 61)
    for values, color, label in (
        (negatives, "wrong", "different classes"),
        (positives, "right", "same class"),
    ):
        if len(values):
            density, _ = np.histogram(np.clip(values, edges[0], 1.0), edges, density=True)
            axes.stairs(density, edges, fill=True, alpha=0.35, color=_COLORS[color], label=label)
            axes.stairs(density, edges, color=_COLORS[color], lw=1.2)
    if threshold is not None:
        axes.axvline(threshold, color=_TEXT, lw=1.2, ls="--", label=f"threshold {threshold:.3f}")
    axes.set(xlabel="cosine similarity", yticks=[])
    axes.spines["left"].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, labelcolor=_TEXT)
    return _svg(figure, "Histograms of similarities")


def _percent(value: float | None) -> float:
    return float("nan") if value is None else 100 * value


def _figure(*, integer: bool = True) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5, 3.1), layout="constrained")
    figure.patch.set_alpha(0)
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    axes.patch.set_alpha(0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_TEXT)
    axes.tick_params(colors=_TEXT)
    axes.xaxis.label.set_color(_TEXT)
    axes.yaxis.label.set_color(_TEXT)
    if integer:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def _svg(figure: Figure, title: str) -> Markup:
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_TEXT, "currentColor")
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{title}"', 1))
