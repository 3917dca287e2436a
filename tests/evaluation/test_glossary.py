"""The reference page and `lookalike metrics` say what METRICS says."""

import json
from pathlib import Path

import typer
from typer.testing import CliRunner

from lookalike.cli import metrics as command
from lookalike.evaluation import METRICS
from lookalike.evaluation.glossary import reference_sections, reference_table

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_reference_page_holds_every_metric():
    text = PAGE.read_text(encoding="utf-8")
    assert reference_table() in text
    assert reference_sections() in text


def call(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    command.add(app)
    return CliRunner().invoke(app, ["metrics", *arguments])


def test_command_line():
    for metric in METRICS.values():
        assert metric.formula in call().stdout
        assert metric.elsewhere in call("--explain").stdout
    alone = call("recall_at_10").stdout
    assert "hit rate" in alone
    assert "r_precision =" not in alone
    assert set(METRICS) == {one["key"] for one in json.loads(call("--json").stdout)["metrics"]}
