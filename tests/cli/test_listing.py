"""lookalike list: every kind as a table and as JSON, and one entry of it."""

import errno
import json
from unittest.mock import Mock

import pytest

from lookalike.cli.listing import KINDS
from lookalike.evaluation.metrics import METRICS


@pytest.mark.parametrize("kind", [*KINDS, "doctor"])
def test_every_kind_is_listed_as_text_and_as_json(lookalike, kind):
    words = [kind] if kind == "doctor" else ["list", kind]
    assert lookalike(*words).out
    assert json.loads(lookalike(*words, "--json").out)


@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_is_found_by_its_name_and_shows_every_fact(lookalike, kind):
    first = json.loads(lookalike("list", kind, "--json").out)[0]
    name = str(next(iter(first.values())))
    shown = lookalike("list", kind, name).out
    assert all(f"{fact}: " in shown for fact in first)
    assert json.loads(lookalike("list", kind, name, "--json").out) == [first]


def test_a_name_that_is_not_there_has_a_near_miss(lookalike):
    assert "did you mean 'proxy_anchor'" in lookalike("list", "losses", "proxy_ancor").err
    assert "did you mean 'losses'" in lookalike("list", "loses").err


def test_a_metric_is_explained_for_any_k(lookalike):
    out = lookalike("list", "metrics", "recall_at_10").out
    assert METRICS["recall_at_k"].elsewhere in out
    assert "r_precision" not in out


def test_settings_are_listed_with_defaults_and_meaning(lookalike):
    out = lookalike("list", "settings").out
    assert "train.proxy_lr" in out
    assert "data.validation_fraction" in out


def test_a_cache_that_cannot_be_listed_is_not_called_empty(lookalike, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    (tmp_path / "activations").mkdir()
    error = PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "activations"))
    monkeypatch.setattr("os.listdir", Mock(side_effect=error))
    listed = lookalike("cache", "list")
    assert (listed.code, "activations'; change its permissions" in listed.err) == (1, True)
