"""Two-dimensional map of embeddings: a point per image, colored by class, and thumbnails spread over it."""

import colorsys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.data.dataset import LabeledImages
from lookalike.reporting.thumbnails import draw_row
from lookalike.utils.validation import is_installed, optional_import

MOST_POINTS = 1500
WIDTH, HEIGHT = 960, 640
_COLUMNS, _ROWS, _SIDE = 12, 8, 44


@dataclass(frozen=True)
class MapPoint:
    """One image of the map, in SVG coordinates; `thumbnail` is base64 text of a JPEG, or empty."""

    x: float
    y: float
    color: str
    name: str
    thumbnail: str


@dataclass(frozen=True)
class EmbeddingMap:
    """The map and how it was made."""

    method: str
    images: int
    points: list[MapPoint]
    width: int = WIDTH
    height: int = HEIGHT
    side: int = _SIDE


def draw_map(table: LabeledImages, unit: NDArray[np.float32], *, seed: int) -> EmbeddingMap:
    """The map of at most MOST_POINTS images, whole classes drawn with `seed`; by UMAP if installed, else PCA."""
    rows = _sample(table, seed)
    method, coordinates = _project(unit[rows], seed)
    span = np.maximum(coordinates.max(axis=0) - coordinates.min(axis=0), 1e-12)
    coordinates = (coordinates - coordinates.min(axis=0)) / span
    x = _SIDE / 2 + coordinates[:, 0] * (WIDTH - _SIDE)
    y = _SIDE / 2 + (1 - coordinates[:, 1]) * (HEIGHT - _SIDE)
    shown = _spread(x, y)
    points = [
        MapPoint(
            round(float(x[at]), 1),
            round(float(y[at]), 1),
            _color(int(table.labels[row])),
            table.class_names[int(table.labels[row])],
            draw_row(table, int(row), _SIDE) if at in shown else "",
        )
        for at, row in enumerate(rows)
    ]
    return EmbeddingMap(method, len(rows), sorted(points, key=lambda point: bool(point.thumbnail)))


def _sample(table: LabeledImages, seed: int) -> NDArray[np.int64]:
    """Rows of whole classes, so that it shows whether a class stays together."""
    if len(table) <= MOST_POINTS:
        return np.arange(len(table))
    order = np.random.default_rng(seed).permutation(table.num_classes)
    sizes = np.bincount(table.labels, minlength=table.num_classes)[order]
    chosen = order[: max(1, int(np.searchsorted(np.cumsum(sizes), MOST_POINTS, side="right")))]
    return np.isin(table.labels, chosen).nonzero()[0][:MOST_POINTS]


def _project(unit: NDArray[np.float32], seed: int) -> tuple[str, NDArray[np.float64]]:
    if is_installed("umap") and len(unit) > 15:
        umap = optional_import("umap", "umap")
        reducer = umap.UMAP(n_components=2, metric="cosine", random_state=seed, n_jobs=1)
        return "UMAP", np.asarray(reducer.fit_transform(unit), dtype=np.float64)
    centered = unit.astype(np.float64) - unit.mean(axis=0, dtype=np.float64)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    coordinates = np.zeros((len(unit), 2))
    coordinates[:, : min(2, len(axes))] = centered @ axes[:2].T
    signs = np.sign(coordinates[np.abs(coordinates).argmax(axis=0), np.arange(2)])  # svd leaves the sign open
    return "PCA", coordinates * np.where(signs == 0, 1, signs)


def _spread(x: NDArray[np.float64], y: NDArray[np.float64]) -> set[int]:
    """At most one point per cell of a grid, the one nearest to the cell's center."""
    column = np.minimum((x / WIDTH * _COLUMNS).astype(int), _COLUMNS - 1)
    row = np.minimum((y / HEIGHT * _ROWS).astype(int), _ROWS - 1)
    center_x = (column + 0.5) * WIDTH / _COLUMNS
    center_y = (row + 0.5) * HEIGHT / _ROWS
    distance = np.hypot(x - center_x, y - center_y)
    cell = row * _COLUMNS + column
    return {
        int(mine[distance[mine].argmin()])
        for one in np.unique(cell)
        for mine in [np.flatnonzero(cell == one)]
    }


def _color(label: int) -> str:
    """A color per class; neighboring class numbers are far apart in hue."""
    red, green, blue = colorsys.hls_to_rgb(label * 0.618034 % 1, 0.5, 0.45 + 0.3 * (label % 3) / 2)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
