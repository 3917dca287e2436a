"""The literal tables: complete, consistent, and with a source for every number."""

from pathlib import Path

import pytest

from lookalike.errors import UnknownNameError
from lookalike.studies import STUDIES, find_study
from lookalike.studies.protocols.metrics import check_metric
from lookalike.studies.render import describe, described_rows
from lookalike.studies.study import DATASETS, SOURCES, Published, recalls

NEEDED = [
    *(f"proxynca_pp/table{n}" for n in range(3, 12)),
    "proxynca_pp/figure4",
    *(f"proxy_anchor/table{n}" for n in range(1, 7)),
    *(f"proxy_anchor/figure{n}" for n in (1, 5, 6)),
    *(f"proxy_gml/{name}" for name in ("ablation", "grid", "lambda", "cost", "vs_proxy_anchor")),
    *(f"hpl/table{n}" for n in range(1, 5)),
    "hpl/t_curve",
]
every_study = pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))


def test_every_table_and_figure_is_there():
    assert set(NEEDED) <= set(STUDIES)


@every_study
def test_names_and_columns_are_sound(study):
    names = [row.name for row in study.rows]
    assert len(set(names)) == len(names)
    assert all(name and " " not in name and "," not in name for name in names)
    for metric in study.metrics:
        check_metric(metric)
    for row in study.rows:
        assert set(row.published) <= set(study.metrics), row.name
        assert row.recipe is not None or row.published, f"{row.name} neither runs nor cites"
        assert row.recipe is None or row.dataset in DATASETS


@every_study
def test_every_row_is_an_experiment_that_exists(study):
    for row in study.rows:
        if row.recipe is not None:
            experiment = row.experiment().check()
            assert experiment.train.epochs is not None
            assert row.recipe.source


@every_study
def test_every_published_number_is_a_percentage_with_a_source(study):
    for row in study.rows:
        for number in row.published.values():
            assert 0 < number.value <= 100
            assert number.source in SOURCES


@every_study
def test_no_two_rows_of_one_data_set_are_the_same_experiment_but_for_what_was_printed(study):
    """One experiment may have two printed numbers (a README, a sweep's default), nothing else."""
    seen = {}
    for row in study.rows:
        if row.recipe is None:
            continue
        key = (row.dataset, row.experiment().model_dump_json())
        assert key not in seen or "readme" in row.name or row.series, (row.name, seen[key])
        seen[key] = row.name


def test_the_ablation_differs_in_one_thing_a_row():
    rows = {row.name: row.experiment() for row in find_study("proxynca_pp/table7").rows}
    full = rows.pop("full")
    changed = {
        name: {
            f"{section}.{key}"
            for section in ("data", "model", "loss", "batch", "train")
            for key in {**other.model_dump()[section], **full.model_dump()[section]}
            if other.model_dump()[section].get(key) != full.model_dump()[section].get(key)
        }
        for name, other in rows.items()
    }
    assert changed == {
        "-scale": {"loss.temperature"},
        "-max": {"model.pooling"},
        "-norm": {"model.norm"},
        "-cbs": {"batch.sampler"},
        "-fast": {"train.proxy_lr"},
        "-prob": {"loss.name", "loss.include_positive"},
    }


def test_recipes_keep_what_the_codes_do():
    anchor = find_study("proxy_anchor/table2").row("cub200-512").experiment()
    assert (anchor.model.pooling, anchor.train.clip_value, anchor.batch.size) == (
        "average_plus_maximum",
        10,
        180,
    )
    assert anchor.train.proxy_lr == pytest.approx(100 * anchor.train.lr)
    plus = find_study("proxynca_pp/table3").row("proxynca_pp-2048").experiment()
    assert (plus.train.eps, plus.train.proxy_lr, plus.train.schedule.name) == (1.0, 400, "plateau")
    gml = find_study("proxy_gml/ablation").row("all").experiment()
    assert (gml.train.eps, gml.batch.size, gml.loss.arguments["proxies_per_class"]) == (0.01, 32, 12)


def test_unknown_names_come_with_the_near_miss():
    with pytest.raises(UnknownNameError, match="did you mean 'proxynca_pp/table7'"):
        find_study("proxynca_pp/tabel7")
    with pytest.raises(UnknownNameError, match="did you mean '-scale'"):
        find_study("proxynca_pp/table7").row("-scal")


def test_printed_numbers_read_as_printed():
    assert str(Published(72.2, 0.8)) == "72.2±0.8 [S]"
    assert str(Published(87.21, None, "P")) == "87.21 [P]"
    assert recalls("inshop", 91.5, 98.1, 98.8, None, 99.1)["recall_at_40"].value == 99.1
    assert "recall_at_30" not in recalls("inshop", 91.5, 98.1, 98.8, None, 99.1)


def test_a_study_is_described_with_complete_experiments():
    tree = describe(find_study("hpl/table1"))
    by_name = {row["row"]: row for row in tree["rows"]}
    assert by_name["htl"]["experiment"] is None
    assert by_name["hpl-nca-500"]["experiment"]["loss"]["coarse"] == [500]
    header, lines = described_rows(find_study("hpl/table1"))
    assert header[:3] == ["row", "data", "recall_at_1"]
    assert all(len(line) == len(header) for line in lines)


@every_study
def test_the_documentation_lists_the_study(study):
    page = Path(__file__).parents[2] / "docs" / "studies.md"
    assert f"| `{study.id}` | {study.title} |" in page.read_text()
