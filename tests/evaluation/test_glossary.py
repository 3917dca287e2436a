"""Every number that a result can carry is explained, and the command prints it."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from lookalike.cli import metrics as verb
from lookalike.errors import UnknownNameError
from lookalike.evaluation import Clustering, evaluate
from lookalike.evaluation.glossary import METRICS, explain


def test_every_metric_of_a_result_is_explained_and_the_other_way_round():
    rows = np.random.default_rng(0).normal(size=(20, 4))
    result = evaluate(rows, np.arange(20) % 4, ks=(1, 10), clustering=Clustering(engine="sklearn"))
    assert {explain(key).key for key in result.values} == set(METRICS)


def test_unknown_names_get_a_hint():
    with pytest.raises(UnknownNameError, match="did you mean 'map_at_r'"):
        explain("map_at_rr")


def call(*arguments):
    app = typer.Typer()
    app.callback()(lambda: None)
    verb.add(app)
    return CliRunner().invoke(app, ["metrics", *arguments])


def test_command_line():
    for one in METRICS.values():
        assert one.formula in call().stdout
        assert one.elsewhere in call("--explain").stdout
    alone = call("recall_at_10", "--explain").stdout
    assert "hit rate" in alone
    assert "r_precision =" not in alone
    assert len(json.loads(call("--json").stdout)["metrics"]) == len(METRICS)
