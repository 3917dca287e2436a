"""What `study show` tells: all differences, recipes, twins."""

import pytest

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings
from lookalike.studies import STUDIES, Row, find_study
from lookalike.studies.recipes import four_papers
from lookalike.studies.show import (
    differences,
    flat,
    recipe_lines,
    row_cells,
    study_text,
    study_tree,
    twins_of,
)

every_study = pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))


@every_study
def test_rows_of_one_recipe_that_differ_are_shown_as_different(study):
    """What is printed of a row decides its experiment: no two rows look alike and are not."""
    seen = {}
    for row in study.rows:
        if row.recipe is not None:
            key = (row.recipe.name, str(differences(row)))
            experiment = row.experiment().model_dump_json()
            assert seen.setdefault(key, experiment) == experiment, row.name


def test_rows_that_are_an_earlier_experiment_name_it():
    assert twins_of(find_study("proxynca_pp/table7"))["full"] == "proxynca_pp/table3 proxynca_pp-2048"
    assert twins_of(find_study("proxynca_pp/figure4")).keys() == {
        "temperature-1/1", "temperature-1/9", "proxy_lr-0.004", "proxy_lr-400"
    }  # fmt: skip
    curve = twins_of(find_study("proxynca_pp/figure4"))
    assert curve["proxy_lr-0.004"] == "proxynca_pp/table7 -fast"
    readme = twins_of(find_study("proxy_anchor/readme"))
    assert readme["cub200-bn_inception"] == "proxy_anchor/table2 cub200-proxy_anchor-512"
    assert twins_of(find_study("hpl/table1")) == {}


@every_study
def test_a_study_is_reported_in_full(study):
    text, (header, lines) = study_text(study), row_cells(study)
    assert study.source in text
    for row in study.rows:
        if row.recipe is not None:
            assert f") {row.recipe.name}" in text
            assert all(f"caveat: {caveat}" in text for caveat in row.recipe.caveats)
    assert all(len(line) == len(header) for line in lines)
    if any(row.recipe for row in study.rows):
        assert "protocol:" in text


@every_study
def test_what_is_shown_of_a_recipe_makes_its_experiment(study):
    for recipe in {row.recipe.name: row.recipe for row in study.rows if row.recipe is not None}.values():
        shown = {line.partition(":")[0]: line.partition(": ")[2].split() for line in recipe_lines(recipe)}
        for name, value in flat(recipe.experiment).items():
            section, _, setting = name.partition(".")
            default = flat(Experiment()).get(name)
            words = [
                word.partition("=")[2] for word in shown.get(section, ()) if word.startswith(f"{setting}=")
            ]
            assert words or value == default or name.startswith("loss.base"), name


def test_settings_that_a_row_takes_away_are_differences_too():
    recipe = four_papers.proxy_gml("cars196")
    row = Row(name="r", recipe=recipe, changes=(Experiment(loss=LossSettings(name="proxy_nca")),))
    assert differences(row) == {"loss.name": "proxy_nca"}
    shorter = Row(name="s", recipe=recipe, changes=(Experiment(loss=LossSettings(scale=2.0)),))
    assert differences(shorter) == {"loss.scale": 2.0}


def test_json_has_complete_experiments():
    by_name = {row["row"]: row for row in study_tree(find_study("hpl/table2"))["rows"]}
    assert by_name["mic_star"]["experiment"] is None
    assert by_name["hpl-nca"]["experiment"]["loss"]["coarse"] == [500]
    assert by_name["hpl-nca"]["published"]["recall_at_1"]["text"] == "80.1"
    assert by_name["hpl-nca"]["protocol"] == "papers"
