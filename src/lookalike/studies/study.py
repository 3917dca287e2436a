"""What a study is: a table or figure of a paper, as experiments with the numbers that were published.

A `Recipe` is how one system was trained on one data set; a `Row` is a recipe with a few settings changed, and
what the paper printed for it. Published numbers are in percent, as printed, each with the tag of its source.
A row that cannot be run here (only cited in the paper) has no recipe. Nothing in this file does anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from lookalike.config.experiment import Experiment
from lookalike.utils.validation import look_up

SOURCES = {
    "S": "the paper, its supplement or its author response",
    "P": "the authors' poster and slides",
    "C": "the authors' released code or its README",
    "B": "powerful-benchmarker's stored records",
}
"""What the tags of published numbers mean."""

DATASETS = {
    "cub200": "CUB-200-2011",
    "cars196": "Cars196",
    "sop": "Stanford Online Products",
    "inshop": "In-Shop Clothes",
    "inaturalist": "iNaturalist",
}
"""Data sets of the papers, by the name of their reader."""


@dataclass(frozen=True)
class Published:
    """A printed number: percent, its printed spread if any, and the tag of its source."""

    value: float
    spread: float | None = None
    source: str = "S"

    def __str__(self) -> str:
        spread = "" if self.spread is None else f"±{self.spread:g}"
        return f"{self.value:.2f}".removesuffix("0") + f"{spread} [{self.source}]"


@dataclass(frozen=True)
class Recipe:
    """How one system was trained on one data set, and where each of its numbers comes from."""

    system: str
    dataset: str
    experiment: Experiment
    source: str

    def but(self, *settings: str, dataset: str | None = None) -> "Recipe":
        """The same with settings such as `loss.scale=16` changed, or on another data set."""
        return Recipe(self.system, dataset or self.dataset, self.experiment.override(settings), self.source)


@dataclass(frozen=True)
class Row:
    """One line of a table, or one point of a figure.

    Attributes:
        name: unique in its study; what `--rows` selects.
        recipe: what is run; None for a row that the paper only cites.
        settings: what differs from the recipe.
        published: metric key -> printed number.
        x: place on the figure's horizontal axis.
        series: which line of the figure the point is on.
        note: what a reader of the row should know.
    """

    name: str
    recipe: Recipe | None
    settings: tuple[str, ...] = ()
    published: dict[str, Published] = field(default_factory=dict)
    x: float | None = None
    series: str = ""
    note: str = ""

    @property
    def dataset(self) -> str:
        """The data set of the row, or an empty string for a cited one."""
        return self.recipe.dataset if self.recipe is not None else ""

    def experiment(self) -> Experiment:
        """The row's experiment, complete."""
        assert self.recipe is not None
        return self.recipe.experiment.override(self.settings)


@dataclass(frozen=True)
class Figure:
    """Axes of a study that is drawn: its first metric against `x` of the rows, or seconds of training.

    With `panels` each series has axes of its own and names its x; otherwise all share one.
    """

    kind: Literal["curve", "training"] = "curve"
    x_label: str = ""
    log_x: bool = False
    panels: bool = False


@dataclass(frozen=True)
class Study:
    """A table or figure of a paper.

    Attributes:
        id: `paper/name`.
        title: what it asks, in our words.
        source: where its published numbers come from.
        metrics: its columns.
        rows: its lines.
        figure: how to draw it; None for a plain table.
        note: what a reader should know, such as that the number of the table is ours.
    """

    id: str
    title: str
    source: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    figure: Figure | None = None
    note: str = ""

    def row(self, name: str) -> Row:
        """The row of that name.

        Raises:
            UnknownNameError: no such row; with the near miss.
        """
        return look_up({row.name: row for row in self.rows}, name, f"row of {self.id}")


BIRDS = (1, 2, 4, 8)
PRODUCTS = (1, 10, 100, 1000)
CLOTHES = (1, 10, 20, 30, 40, 50)
KS = {"cub200": BIRDS, "cars196": BIRDS, "sop": PRODUCTS, "inshop": CLOTHES, "inaturalist": BIRDS}
"""The K of Recall@K that the papers print for each data set."""


def recall_keys(dataset: str, count: int | None = None) -> tuple[str, ...]:
    """`recall_at_K` for the (first `count`) K of a data set."""
    return tuple(f"recall_at_{k}" for k in KS[dataset][:count])


def recalls(
    dataset: str,
    *values: float | None,
    nmi: float | None = None,
    geometric: bool = False,
    spreads: Sequence[float] = (),
    nmi_spread: float | None = None,
    source: str = "S",
) -> dict[str, Published]:
    """Printed Recall@K at the K of `dataset`, in order; None where nothing is printed.

    Args:
        geometric: the NMI is of the geometric mean of the entropies, as ProxyNCA++'s code computes it.
        spreads: the printed plus-minus of the first values.
    """
    padded = [*spreads, *[None] * len(values)]
    known = {
        key: Published(value, spread, source)
        for key, value, spread in zip(recall_keys(dataset), values, padded, strict=False)
        if value is not None
    }
    if nmi is None:
        return known
    return known | {"nmi_geometric" if geometric else "nmi": Published(nmi, nmi_spread, source)}
