"""A study as a plot: ours with intervals, the published points with them where they may be compared.

Where they may not be compared the published points get panels of their own, below. A study of retrievals is a
grid of images: a query of each class and its nearest images, framed red where they are of another class.
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from lookalike.data.image_io import open_image
from lookalike.studies.metric_keys import COSTS
from lookalike.studies.table import Line, Table, half_width

WIDTH, HEIGHT = 4.6, 3.4  # inches per panel
THUMBNAIL = 1.1  # inches per image


def draw(table: Table, file: Path) -> Path:
    """Writes the study's plot as PNG or SVG, by the ending of `file`."""
    figure = table.study.figure
    assert figure is not None
    if figure.kind == "retrievals":
        return _draw_retrievals(table, file)
    panels = _panels(table)
    apart = not table.comparable and any(line.row.published for line in table.lines)
    canvas = Canvas(figsize=(WIDTH * len(panels), HEIGHT * (2 if apart else 1)), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(2 if apart else 1, len(panels), squeeze=False)
    metric = table.metrics[0] if table.metrics else "recall_at_1"
    for column, (label, lines) in enumerate(panels.items()):
        top = grid[0][column]
        if figure.kind == "training":
            _draw_training(top, lines, metric)
        else:
            _draw_curves(top, lines, metric, ours=True, published=table.comparable)
        _label(top, label, metric, log_x=figure.log_x)
        if apart:
            below = grid[1][column]
            _draw_curves(below, lines, metric, ours=False, published=True)
            _label(below, label, metric, log_x=figure.log_x)
            below.set_xlim(top.get_xlim())
            below.set_title("published, with other data, settings or protocol", fontsize=8)
    with mpl.rc_context({"font.size": 8}):
        canvas.suptitle(table.title, wrap=True, fontsize=8)
        canvas.savefig(file, dpi=120)
    return file


def _panels(table: Table) -> dict[str, list[Line]]:
    """Lines by horizontal axis: one panel, or one for each series where these are not the same quantity."""
    figure = table.study.figure
    lines = [
        line
        for line in table.lines
        if figure is not None and (figure.kind == "training" or line.row.x is not None)
    ]
    if figure is not None and figure.panels:
        return {series: [line for line in lines if line.row.series == series] for series in _series(lines)}
    label = figure.x_label if figure is not None else ""
    return {label: lines}


def _series(lines: list[Line]) -> list[str]:
    return list(dict.fromkeys(line.row.series for line in lines))


def _draw_curves(axes: Axes, lines: list[Line], metric: str, *, ours: bool, published: bool) -> None:
    for number, series in enumerate(_series(lines)):
        color = f"C{number}"
        members = sorted(
            (line for line in lines if line.row.series == series), key=lambda line: line.row.x or 0.0
        )
        measured = [line for line in members if metric in line.ours] if ours else []
        if measured:
            axes.errorbar(
                [line.row.x or 0.0 for line in measured],
                [line.ours[metric].mean for line in measured],
                yerr=[half_width(line.ours[metric]) or 0.0 for line in measured],
                color=color,
                marker="o",
                capsize=2,
                label=f"{series}, ours",
            )
        printed = [
            (line.row.x or 0.0, line.row.published[metric].value)
            for line in members
            if published and metric in line.row.published
        ]
        if printed:
            axes.plot(
                *zip(*printed, strict=True),
                color=color,
                marker="s",
                markerfacecolor="white",
                linestyle="--",
                label=f"{series}, published",
            )


def _draw_training(axes: Axes, lines: list[Line], metric: str) -> None:
    """The selecting metric over seconds of training, one thin line per seed."""
    for number, line in enumerate(lines):
        for seed, curve in enumerate(line.curves):
            points = [(point["seconds"], 100 * point[metric]) for point in curve if metric in point]
            axes.plot(
                [x for x, _ in points],
                [y for _, y in points],
                color=f"C{number}",
                linewidth=1,
                label=line.row.series if seed == 0 else None,
            )


def _label(axes: Axes, label: str, metric: str, *, log_x: bool) -> None:
    if log_x:
        axes.set_xscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel(metric if metric in COSTS else f"{metric}, percent")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7)


def _draw_retrievals(table: Table, file: Path) -> Path:
    """A row of images per query: the query, then its nearest images."""
    shown = [(line.row.name, one) for line in table.lines for one in line.retrievals]
    columns = 1 + max((len(one["hits"]) for _, one in shown), default=0)
    canvas = Canvas(
        figsize=(THUMBNAIL * columns + 1, THUMBNAIL * max(len(shown), 1) + 1), layout="constrained"
    )
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(max(len(shown), 1), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_xticks([])
        axes.set_yticks([])
    for row, (name, one) in zip(grid, shown, strict=False):
        row[0].imshow(open_image(Path(one["query"])))
        row[0].set_ylabel(name, fontsize=6)
        for axes, hit in zip(row[1:], one["hits"], strict=False):
            axes.imshow(open_image(Path(hit["file"])))
            for spine in axes.spines.values():
                spine.set_color("green" if hit["same_class"] else "red")
                spine.set_linewidth(3)
    canvas.suptitle(table.title, wrap=True, fontsize=8)
    canvas.savefig(file, dpi=120)
    return file
