"""Every row of every study runs, at toy size, through every step up to its table; identical rows once."""

import pytest

from lookalike.studies import STUDIES
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images, toy_glyphs
from lookalike.studies.render import write_table
from lookalike.studies.run import Options, run_study


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    return Options(
        out=tmp_path_factory.mktemp("studies"),
        images=Images(smoke=True),
        adaptation=Adaptation(smoke=True),
        seeds=1,
    )


def test_the_toy_set_has_scripts_and_unseen_characters():
    table = toy_glyphs()
    assert (len(table), table.num_classes, table.splits()) == (108, 18, ("train", "test"))
    assert len(table.coarse[0].class_names) > 1


@pytest.mark.parametrize("name", STUDIES)
def test_study_runs_at_toy_size(name, everything):
    study = STUDIES[name]
    done = run_study(study, everything)
    assert done.failed == {}
    assert set(done.skipped) == {row.name for row in study.rows if row.recipe is None}
    table = write_table(study, done.folder, everything.out)
    assert all(line.ours for line in table.lines if line.row.recipe is not None)
    assert "toy size" in table.title
