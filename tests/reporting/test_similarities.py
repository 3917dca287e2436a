"""Histograms of similarities, and the threshold that comes into the report later."""

import json

import numpy as np

from lookalike.reporting.report import write_report
from lookalike.reporting.similarities import histogram, show_threshold
from reporting.test_report import parse, structure


def test_each_histogram_has_area_one_whatever_its_range():
    draws = np.random.default_rng(0)
    same, different = draws.uniform(0.5, 1.0, 100), draws.uniform(-0.5, 0.7, 1000)
    bins = histogram(same.astype(np.float32), different.astype(np.float32))
    widths = np.diff(bins["edges"])
    for name in ("same", "different"):
        assert np.isclose((np.array(bins[name]) * widths).sum(), 1.0, atol=1e-4)
    assert bins["edges"][0] == np.float32(different.min())
    assert bins["edges"][-1] == 1.0


def test_no_pairs_have_no_histogram():
    none = np.empty(0, np.float32)
    assert histogram(none, none)["same"] == []


def test_the_threshold_is_drawn_into_the_report_and_moved(run):
    folder, done = run
    before = write_report(folder.path, done).read_text(encoding="utf-8")
    assert "threshold 0." not in before
    for value in (0.625, 0.5):
        assert show_threshold(folder.path, value)
        page = (folder.path / "report.html").read_text(encoding="utf-8")
        assert f"threshold {value:.3f}" in page
        assert page.count("threshold 0.") == 1
        assert structure(page) == structure(before)
        parse(page)


def test_a_run_without_a_report_is_left_alone(tmp_path):
    assert not show_threshold(tmp_path, 0.5)
    (tmp_path / "similarities.json").write_text(json.dumps({"edges": [0, 1], "same": [], "different": []}))
    (tmp_path / "report.html").write_text("a report of an earlier version")
    assert not show_threshold(tmp_path, 0.5)
    assert (tmp_path / "report.html").read_text() == "a report of an earlier version"
