"""Study, Row and Recipe: a table or figure of a paper, as experiments with the published numbers.

A `Recipe` is how one system was trained on one data set. A `Row` is a recipe with a few settings changed, and
what the paper printed for it. Changes are experiments in which only the changed settings are set:
`Experiment(model=ModelSettings(pooling="average"))`. Rows of systems that are not run here have no recipe.
"""

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from lookalike.config.experiment import Experiment
from lookalike.studies.changes import combined
from lookalike.studies.metric_keys import check_metric
from lookalike.studies.published import Number, PrintedRow, PrintedTable
from lookalike.utils.validation import look_up

DATASETS = {
    "cub200": "CUB-200-2011",
    "cars196": "Cars196",
    "sop": "Stanford Online Products",
    "inshop": "In-Shop Clothes",
    "inaturalist": "iNaturalist",
}
"""Data sets of the papers, by the name of their reader."""

CITED = "cited in the paper; run here with the recipe of that system"
RETRIEVAL_QUERIES = "which queries the paper shows is not stated; here one of each of evenly spaced classes"
"""Notes that rows and studies of several papers have."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How one system was trained on one data set.

    Attributes:
        experiment: every setting.
        protocol: how its published numbers were produced, one of `protocols.PROTOCOLS`.
        source: where the settings come from.
        caveats: what differs from the authors' training, is our choice, or is disputed between text and code.
        similarity: how embeddings are compared: as unit vectors, or raw by Euclidean distance.
        trials: settings that a search tries, where the protocol has one.
    """

    system: str
    dataset: str
    experiment: Experiment
    source: str
    protocol: str = "papers"
    caveats: tuple[str, ...] = ()
    similarity: Literal["cosine", "euclidean"] = "cosine"
    trials: int = 50

    @property
    def name(self) -> str:
        """System and data set."""
        return f"{self.system} on {DATASETS[self.dataset]}"


@dataclass(frozen=True)
class Row:
    """One line of a table, or one point of a figure.

    Attributes:
        name: unique in its study; what `--rows` selects.
        recipe: what is run; None for a row that is only cited.
        changes: what differs from the recipe; only settings that are set count, later ones win.
        printed: what the paper printed for it.
        x: place on the figure's horizontal axis.
        series: which line of the figure the point is on.
        given_groups: how many groups the paper has on the level of the data that the row names.
        note: what a reader of the row should know.
    """

    name: str
    recipe: Recipe | None = None
    _: KW_ONLY
    changes: tuple[Experiment, ...] = ()
    printed: PrintedRow | None = None
    x: float | None = None
    series: str = ""
    given_groups: int | None = None
    note: str = ""

    @property
    def dataset(self) -> str:
        """The data set of the row, or an empty string for a cited one."""
        return self.recipe.dataset if self.recipe is not None else ""

    @property
    def published(self) -> Mapping[str, Number]:
        """Printed number by column."""
        return self.printed.numbers if self.printed is not None else {}

    def experiment(self) -> Experiment:
        """The row's experiment, complete."""
        assert self.recipe is not None
        return combined(self.recipe.experiment, *self.changes)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Axes of a study that is drawn: its first metric against `x` of the rows, or over seconds of training.

    With `panels` each series has axes of its own and names its x; otherwise all share one.
    """

    kind: Literal["curve", "training", "retrievals"] = "curve"
    x_label: str = ""
    log_x: bool = False
    panels: bool = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table or figure of a paper.

    Attributes:
        id: `paper/name`; with a number only where the paper has that number.
        title: what it shows.
        source: the paper.
        metrics: what is measured.
        columns: what is printed and not measured, such as a complexity.
        rows: its lines.
        figure: how to draw it; None for a plain table.
        note: what a reader should know.
    """

    id: str
    title: str
    source: str
    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    figure: Figure | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for metric in self.metrics:
            check_metric(metric)

    def row(self, name: str) -> Row:
        """The row of that name.

        Raises:
            UnknownNameError: no such row; with the near miss.
        """
        return look_up({row.name: row for row in self.rows}, name, f"row of {self.id}")


def printed_study(
    table: PrintedTable,
    rows: Iterable[Row],
    *,
    metrics: tuple[str, ...] | None = None,
    columns: tuple[str, ...] = (),
    source: str = "",
    figure: Figure | None = None,
    note: str = "",
) -> Study:
    """The study of a printed table: its name, title and paper, and a row for every experiment that it prints.

    Args:
        rows: those that can be run, and any that the table lacks. Where the table prints more, its others become
            cited rows, and all stand in its order.
        metrics: what is measured; the table's columns when None.
    """
    given = tuple(rows)
    in_order: list[Row] = []
    for printed in table.rows:
        own = [row for row in given if row.printed == printed]
        in_order += own or [Row(printed.name, printed=printed)]
    in_order += [row for row in given if row.printed is None]
    return Study(
        id=table.id,
        title=table.title,
        source=source or table.citation,
        metrics=table.columns if metrics is None else metrics,
        columns=columns,
        rows=given if len(given) == len(in_order) else tuple(in_order),
        figure=figure,
        note=note,
    )


KS = {
    "cub200": (1, 2, 4, 8),
    "cars196": (1, 2, 4, 8),
    "sop": (1, 10, 100, 1000),
    "inshop": (1, 10, 20, 30, 40, 50),
    "inaturalist": (1, 2, 4, 8),
}
"""The K of Recall@K that the papers print for each data set."""


def recall_keys(dataset: str) -> tuple[str, ...]:
    """`recall_at_K` for the K of a data set."""
    return tuple(f"recall_at_{k}" for k in KS[dataset])
