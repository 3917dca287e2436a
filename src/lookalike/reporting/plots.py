"""Curves and histograms as SVG text that takes the page's colors; the only place that uses matplotlib."""

import io
from collections.abc import Sequence
from typing import Any, TypedDict

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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


class Histogram(TypedDict):
    """Densities between the edges, of pairs of the same class and of different classes; empty without pairs."""

    edges: list[float]
    same: list[float]
    different: list[float]


def plot_similarities(histogram: Histogram, threshold: float | None = None) -> Markup:
    """Histograms of the cosines of positive and negative pairs, and the threshold between them."""
    figure, axes = _figure(integer=False)
    for densities, color, label in (
        (histogram["different"], "wrong", "different classes"),
        (histogram["same"], "right", "same class"),
    ):
        if densities:
            axes.stairs(
                densities, histogram["edges"], fill=True, alpha=0.35, color=_COLORS[color], label=label
            )
            axes.stairs(densities, histogram["edges"], color=_COLORS[color], lw=1.2)
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
