"""Rows run, at toy size, through every step up to their table: one row for each kind of network and loss."""

import pytest

from lookalike.studies import STUDIES
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images, toy_glyphs
from lookalike.studies.plan import Options
from lookalike.studies.render import write_tables
from lookalike.studies.run import run_study


def kind_of(row):
    """What decides whether a row runs: its loss and arguments' names, its network, its training's switches."""
    e = row.experiment()
    return (
        e.loss.name, *e.loss.arguments, str(e.loss.arguments.get("base")), str(e.loss.arguments.get("mask")),
        e.model.pooling, e.model.norm, e.model.start, e.batch.sampler, e.train.optimizer,
        e.train.schedule.name, e.train.batch_norm, e.train.epochs == 0, row.recipe.protocol,
    )  # fmt: skip


FIRST_OF_KIND = {}
for name, study in STUDIES.items():
    for one in study.rows:
        if one.recipe is not None and one.recipe.protocol != "folds":
            FIRST_OF_KIND.setdefault(kind_of(one), (name, one.name))
ROWS_TO_RUN = {
    name: tuple(row for study, row in FIRST_OF_KIND.values() if study == name)
    for name in dict.fromkeys(study for study, _ in FIRST_OF_KIND.values())
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return {
        "out": tmp_path_factory.mktemp("studies"),
        "images": Images(smoke=True),
        "adaptation": Adaptation(smoke=True),
        "seeds": 1,
    }


def test_the_toy_set_has_scripts_and_unseen_characters():
    table = toy_glyphs()
    assert (len(table), table.num_classes, table.splits()) == (108, 18, ("train", "test"))
    assert len(table.coarse[0].class_names) > 1


@pytest.mark.parametrize("name", ROWS_TO_RUN)
def test_rows_run_at_toy_size(name, everything):
    done = run_study(STUDIES[name], Options(**everything, rows=ROWS_TO_RUN[name]))
    assert (done.failed, done.skipped) == ({}, {})
    (table,) = write_tables(STUDIES[name], everything["out"])
    assert {line.row.name for line in table.lines if line.ours} == set(ROWS_TO_RUN[name])
    assert "toy size" in table.title
