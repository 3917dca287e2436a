"""Histograms of the similarities of test pairs, as the report draws them, and the threshold in them once there is one.

The report is written when a run ends, the threshold is chosen later by `lookalike calibrate`; so the run keeps the
histograms as `similarities.json`, and `show_threshold` draws the report's figure again.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.reporting.plots import Histogram, plot_similarities
from lookalike.utils.io import read_checked, write_text

FILE, REPORT, BINS = "similarities.json", "report.html", 60
_FIGURE = re.compile(r"(<!-- similarities -->).*?(<!-- end of similarities -->)", re.DOTALL)


def histogram(positives: NDArray[np.float32], negatives: NDArray[np.float32]) -> Histogram:
    """Densities of the cosines of pairs of the same class and of different classes, each with area 1."""
    low = min((float(values.min()) for values in (positives, negatives) if len(values)), default=-1.0)
    edges = np.linspace(min(low, 0.0), 1.0, BINS + 1)

    def densities(values: NDArray[np.float32]) -> list[float]:
        if not len(values):
            return []
        found, _ = np.histogram(np.clip(values, edges[0], 1.0), edges, density=True)
        return [round(float(density), 6) for density in found]

    return {"edges": edges.tolist(), "same": densities(positives), "different": densities(negatives)}


def show_threshold(run: Path, threshold: float) -> bool:
    """Draws the threshold into the report's histogram; False where the run has no such report."""
    if not (run / FILE).is_file() or not (run / REPORT).is_file():
        return False
    histograms: Any = read_checked(run / FILE)
    figure = str(plot_similarities(histograms, threshold))
    page = (run / REPORT).read_text(encoding="utf-8")
    drawn, count = _FIGURE.subn(lambda found: f"{found[1]}{figure}{found[2]}", page)
    if count:
        write_text(run / REPORT, drawn)
    return bool(count)
