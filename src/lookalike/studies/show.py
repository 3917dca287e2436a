"""A study for a reader, before anything is run: recipes, what differs in each row, and the published numbers."""

from typing import Any

from lookalike.config.experiment import Experiment
from lookalike.studies import STUDIES
from lookalike.studies.protocols import PROTOCOLS
from lookalike.studies.published import SOURCES
from lookalike.studies.study import DATASETS, Recipe, Row, Study

Flat = dict[str, Any]


def flat(experiment: Experiment) -> Flat:
    """Every setting by its dotted name."""
    found: Flat = {}
    _flatten(experiment.model_dump(mode="json"), "", found)
    return found


def _flatten(tree: Flat, prefix: str, found: Flat) -> None:
    for key, value in tree.items():
        if isinstance(value, dict) and prefix + key != "loss.base":
            _flatten(value, f"{prefix}{key}.", found)
        else:
            found[prefix + key] = value


def differences(row: Row) -> Flat:
    """Every setting of a row that is not its recipe's; None for one that its loss does not have."""
    assert row.recipe is not None
    mine, base = flat(row.experiment()), flat(row.recipe.experiment)
    gone = {key: None for key in base if key not in mine and mine["loss.name"] == base["loss.name"]}
    return gone | {key: value for key, value in mine.items() if key not in base or base[key] != value}


def recipes_of(study: Study) -> list[Recipe]:
    """The recipes of a study's rows, each once."""
    found: list[Recipe] = []
    for row in study.rows:
        if row.recipe is not None and row.recipe not in found:
            found.append(row.recipe)
    return found


def recipe_lines(recipe: Recipe) -> list[str]:
    """How a system is trained: every setting that the recipe sets, by section, as `--set` takes it."""
    sections = recipe.experiment.model_dump(mode="json", exclude_unset=True)
    lines = []
    for section, settings in sections.items():
        found: Flat = {}
        _flatten(settings, "", found)
        lines.append(f"{section}: " + " ".join(f"{name}={_short(value)}" for name, value in found.items()))
    compared = "; raw vectors, Euclidean distance" if recipe.similarity == "euclidean" else ""
    lines += [
        f"protocol: {recipe.protocol} ({PROTOCOLS[recipe.protocol].about}){compared}",
        f"settings from: {recipe.source}",
    ]
    return lines + [f"caveat: {caveat}" for caveat in recipe.caveats]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        inner = "".join(f" {key}={_short(entry)}" for key, entry in (value.get("settings") or {}).items())
        return f"({value['name']}{inner})"
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")


def what(row: Row, twins: dict[str, str]) -> str:
    """What distinguishes a row: every difference from its recipe, and whether it is another row again."""
    if row.recipe is None:
        return "; ".join(filter(None, ("cited, not run here", row.note)))
    changed = " ".join(
        f"{key}={_short(value)}" for key, value in differences(row).items() if value is not None
    )
    twin = f"same experiment as {twins[row.name]}" if row.name in twins else ""
    return "; ".join(filter(None, (changed or "as the recipe", twin, row.note)))


def twins_of(study: Study) -> dict[str, str]:
    """For each row that is the same experiment as an earlier one, of this study or another, where that is."""
    first: dict[tuple[str, ...], str] = {}
    twins = {}
    for other in STUDIES.values():
        for row in other.rows:
            if row.recipe is None:
                continue
            recipe = row.recipe
            key = (row.dataset, recipe.protocol, recipe.similarity, row.experiment().model_dump_json())
            if other.id == study.id and key in first:
                twins[row.name] = first[key]
            first.setdefault(key, row.name if other.id == study.id else f"{other.id} {row.name}")
    return twins


def row_cells(study: Study) -> tuple[list[str], list[list[str]]]:
    """Header and lines: row, recipe, published numbers, what differs."""
    metrics = [
        key for key in (*study.columns, *study.metrics) if any(key in row.published for row in study.rows)
    ]
    twins, numbers = twins_of(study), {recipe.name: n for n, recipe in enumerate(recipes_of(study), start=1)}
    lines = []
    for row in study.rows:
        printed = [str(row.published[key]) if key in row.published else "-" for key in metrics]
        recipe = f"({numbers[row.recipe.name]})" if row.recipe is not None else "-"
        lines.append([row.name, recipe, *printed, what(row, twins)])
    return ["row", "recipe", *metrics, "what differs from the recipe"], lines


def study_text(study: Study) -> str:
    """Everything about a study, as text of blocks: head, recipes, and what the tags mean."""
    tags = {number.source for row in study.rows for number in row.published.values()}
    head = [f"{study.id}: {study.title}", f"source: {study.source}"]
    head += [f"[{tag}] {SOURCES[tag]}" for tag in sorted(tags)]
    if study.note:
        head.append(f"note: {study.note}")
    blocks = ["\n".join(head)]
    for number, recipe in enumerate(recipes_of(study), start=1):
        blocks.append(
            "\n".join([f"({number}) {recipe.name}", *(f"    {line}" for line in recipe_lines(recipe))])
        )
    return "\n\n".join(blocks)


def study_tree(study: Study) -> dict[str, Any]:
    """The study with every row's complete experiment, as plain values for JSON."""
    twins = twins_of(study)
    return {
        "study": study.id,
        "title": study.title,
        "source": study.source,
        "note": study.note,
        "metrics": list(study.metrics),
        "source_tags": SOURCES,
        "rows": [_row_tree(row, twins) for row in study.rows],
    }


def _row_tree(row: Row, twins: dict[str, str]) -> dict[str, Any]:
    recipe = row.recipe
    return {
        "row": row.name,
        "dataset": row.dataset or None,
        "data": DATASETS.get(row.dataset),
        "system": recipe.system if recipe else None,
        "protocol": recipe.protocol if recipe else None,
        "similarity": recipe.similarity if recipe else None,
        "recipe_source": recipe.source if recipe else None,
        "caveats": list(recipe.caveats) if recipe else [],
        "differs": differences(row) if recipe else {},
        "experiment": row.experiment().model_dump(mode="json") if recipe else None,
        "published": {key: number.to_dict() for key, number in row.published.items()},
        "same_as": twins.get(row.name),
        "x": row.x,
        "series": row.series or None,
        "note": row.note or None,
    }
