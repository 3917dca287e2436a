"""Plans a study: each row with each seed as an experiment, under one set of conditions."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lookalike.errors import LookalikeError
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images, other_groups
from lookalike.studies.metric_keys import COSTS, split_key
from lookalike.studies.protocols.search_spaces import search_space
from lookalike.studies.protocols.task import Task
from lookalike.studies.results import AS_PUBLISHED, run_key
from lookalike.studies.study import Recipe, Row, Study, recall_keys
from lookalike.utils.progress import Progress

ALWAYS = ("map_at_r", "r_precision", "seconds_per_epoch")
SEEDS = {"folds": 10}
DEFAULT_SEEDS = 5


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a study is run; see `lookalike study run --help`. None: as the row's recipe says."""

    out: Path
    images: Images
    adaptation: Adaptation = field(default_factory=Adaptation)
    rows: tuple[str, ...] = ()
    seeds: int | None = None
    protocol: str | None = None
    trials: int | None = None
    sampler: str = "gp"
    budget_seconds: float | None = None
    keep_models: bool = False
    device: str = "auto"
    progress: Progress = field(default_factory=Progress)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A row with one seed, ready to run.

    Attributes:
        key: names the run.
        task: what the protocol is given.
        other_groups: why the groups of the data are not the paper's; empty where they may be.
        comparable: whether data, settings and protocol are those of the published number.
    """

    row: Row
    protocol: str
    key: str
    task: Task
    other_groups: str
    comparable: bool

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.row.name}, seed {self.task.experiment.seed}"

    def answered_by(self, score: dict[str, Any]) -> bool:
        """Whether a score holds all that is wanted; costs cannot always be measured."""
        if not score or (self.task.show_retrievals and "retrievals" not in score["facts"]):
            return False
        return all(metric in score["metrics"] for metric in self.task.metrics if metric not in COSTS)


def plan_runs(study: Study, rows: list[Row], options: Options) -> tuple[list[Planned], dict[str, str]]:
    """Every row with every seed, the seed as the outer loop; and why rows cannot run, by their name."""
    skipped: dict[str, str] = {}
    by_row: list[list[Planned]] = []
    for row in rows:
        if row.recipe is None:
            skipped[row.name] = "only cited in the paper"
            continue
        seeds = options.seeds or SEEDS.get(options.protocol or row.recipe.protocol, DEFAULT_SEEDS)
        try:
            by_row.append([_plan(study, row, row.recipe, seed, options) for seed in range(seeds)])
        except LookalikeError as error:
            skipped[row.name] = " ".join(str(error).split())
    longest = max(map(len, by_row), default=0)
    planned = [of_row[seed] for seed in range(longest) for of_row in by_row if seed < len(of_row)]
    return planned, skipped


def _plan(study: Study, row: Row, recipe: Recipe, seed: int, options: Options) -> Planned:
    table, protocol = options.images.of(row.dataset), options.protocol or recipe.protocol
    experiment = options.adaptation.apply(row, table, seed)
    trials = options.trials or recipe.trials
    how: dict[str, Any] = {"similarity": recipe.similarity}
    if protocol == "folds":
        search_space(experiment, table.num_classes)
        how |= {"trials": trials, "sampler": options.sampler}
    key, shared = (
        run_key(one, table, protocol, how) for one in (experiment, experiment.override(["seed=0"]))
    )
    groups = other_groups(row, table)
    as_published = options.adaptation.comparable and table.name == row.dataset and not groups
    return Planned(
        row=row,
        protocol=protocol,
        key=key,
        task=Task(
            table,
            experiment,
            options.out / "runs" / key,
            options.out / "searches" / shared,
            metrics=wanted_metrics(study, row.dataset),
            similarity=recipe.similarity,
            show_retrievals=study.figure is not None and study.figure.kind == "retrievals",
            trials=trials,
            sampler=options.sampler,
            device=options.device,
            progress=options.progress,
        ),
        other_groups=groups,
        comparable=as_published
        and protocol == recipe.protocol
        and not _other_search(protocol, trials, recipe),
    )


def _other_search(protocol: str, trials: int, recipe: Recipe) -> bool:
    """Whether a search tries another number of settings than the row's recipe says."""
    return protocol == "folds" and trials != recipe.trials


def wanted_metrics(study: Study, dataset: str) -> tuple[str, ...]:
    """The study's metrics that fit a data set, the recalls that the papers print for it, and some that cost nothing."""
    recalls = recall_keys(dataset)
    fitting = {
        key
        for key in study.metrics
        if not split_key(key)[1].startswith("recall_at_") or split_key(key)[1] in recalls
    }
    return tuple(sorted({*fitting, *recalls, *ALWAYS}))


def conditions_of(planned: list[Planned], options: Options) -> str:
    """What the whole run changes: data, protocol, network, settings."""
    names = sorted({one.task.table.name for one in planned})
    own = all(one.task.table.name == one.row.dataset for one in planned) and not options.adaptation.smoke
    recipes = [(one, one.row.recipe) for one in planned if one.row.recipe is not None]
    same = all(one.protocol == recipe.protocol for one, recipe in recipes)
    searched = any(_other_search(one.protocol, one.task.trials, recipe) for one, recipe in recipes)
    parts = [
        "" if own else "+".join(names),
        "" if same else f"protocol {options.protocol}",
        f"{options.trials} trials" if searched else "",
        options.adaptation.describe(),
    ]
    return ", ".join(part for part in parts if part) or AS_PUBLISHED
