"""The how-to for a new study, followed word for word: its files are taken from the page and run."""

import re
from pathlib import Path

import pytest

from lookalike.studies import STUDIES, published
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images
from lookalike.studies.plan import Options
from lookalike.studies.render import to_markdown, write_tables
from lookalike.studies.run import run_study
from lookalike.studies.show import study_text

PAGE = Path(__file__).parents[2] / "docs" / "how_to" / "add_a_study.md"
TOML, CODE = re.findall(r"```(?:toml|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def study(tmp_path, monkeypatch):
    (tmp_path / "my_paper.toml").write_text(TOML, encoding="utf-8")
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    module = {}
    exec(compile(CODE, "my_paper.py", "exec"), module)
    (found,) = module["STUDIES"]
    monkeypatch.setitem(STUDIES, found.id, found)
    return found


def test_the_study_of_the_how_to_is_shown_and_run(study, tmp_path):
    assert [row.name for row in study.rows] == ["small", "large", "a-rival"]
    assert str(study.row("small").published["recall_at_1"]) == "81.20±0.3 [S]"
    assert "Proxy-Anchor on Cars196" in study_text(study)
    toy = Adaptation(smoke=True)
    options = Options(out=tmp_path / "out", images=Images(smoke=True), adaptation=toy, seeds=1)
    done = run_study(study, options)
    assert (len(done.ran), done.failed, list(done.skipped)) == (2, {}, ["a-rival"])
    (table,) = write_tables(study, tmp_path / "out")
    assert "Nobody" in to_markdown(table)
