"""Tables: arithmetic by hand, and no published number beside one that it cannot be compared with."""

import json

import pytest

from lookalike.studies import find_study
from lookalike.studies.agreement import find_agreement
from lookalike.studies.render import PUBLISHED_APART, as_tree, to_markdown, write_tables
from lookalike.studies.results import AS_PUBLISHED, Result, append_result
from lookalike.studies.table import build_tables, half_width

ABLATION = find_study("proxynca_pp/table7")


def a_run(out, values, *, study=ABLATION, comparable=True, protocol="two_stage", facts=None, **extra):
    """Results on disk, for each row its recall_at_1 by seed, and their table."""
    for name, seeds in values.items():
        for seed, value in enumerate(seeds):
            score = {
                "metrics": {"recall_at_1": value, **extra},
                "selected_on": "validation classes",
                "kept": "trained",
                "seconds": 3.0,
                "curve": [{"epoch": e, "seconds": float(e), "recall_at_1": 0.1 * e} for e in range(3)],
                "facts": facts or {},
            }
            conditions = AS_PUBLISHED if comparable else "mode frozen"
            result = Result(
                study.id, name, seed, f"{name}-{seed}", conditions, "cub200", protocol, comparable, score
            )
            append_result(out, result)
    (table,) = build_tables(study, out)
    return table


def lines_of(table):
    return {line.row.name: line for line in table.lines}


def test_mean_interval_and_difference_by_hand(tmp_path):
    table = a_run(tmp_path, {"full": [0.70, 0.72, 0.74], "-max": [0.65]})
    full, without_max = (lines_of(table)[name] for name in ("full", "-max"))
    assert full.ours["recall_at_1"].mean == pytest.approx(72.0)
    assert half_width(full.ours["recall_at_1"]) == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-6)
    assert full.difference("recall_at_1") == pytest.approx(-0.2)
    assert half_width(without_max.ours["recall_at_1"]) is None
    text = to_markdown(table)
    assert "| full | 72.2±0.8 [S] | 72.0 ± 5.0 | -0.2 |" in text
    assert "| 3 | validation classes | trained | 3 |" in text
    assert "Not the paper's experiment" not in text


def test_what_is_not_comparable_is_never_shown_next_to_a_published_number(tmp_path):
    table = a_run(tmp_path, {"full": [0.5]}, comparable=False)
    assert "Not the paper's experiment" in table.title
    ours, apart = to_markdown(table).split(f"**{PUBLISHED_APART}**")
    assert "72.2" not in ours
    assert "72.2±0.8 [S]" in apart
    tree = as_tree(table)
    assert "published" not in tree["rows"][0]
    assert "difference" not in tree["rows"][0]
    assert tree["published_elsewhere"]["full"]["recall_at_1"]["value"] == 72.2
    assert lines_of(table)["full"].difference("recall_at_1") is None


def test_selection_on_test_stands_in_the_title(tmp_path):
    assert "selected on test" in a_run(tmp_path, {"full": [0.5]}, protocol="papers").title


def test_order_of_rows_by_hand(tmp_path):
    """Published full > -fast > -max > -scale; ours swaps the last two: 5 of 6."""
    values = {"full": [0.9], "-fast": [0.8], "-max": [0.3], "-scale": [0.4]}
    found = find_agreement(a_run(tmp_path, values, comparable=False))
    assert (found.metric, found.pairs, found.as_published) == ("recall_at_1", 6, 5)
    assert (found.confirmed, found.refuted) == (0, 0)  # a single seed has no interval
    assert find_agreement(a_run(tmp_path / "equal", {"-norm": [0.9], "-cbs": [0.8]})) is None


def test_pairs_are_confirmed_and_refuted_by_intervals_of_the_difference_by_seed(tmp_path):
    """full is above -scale beyond chance as published; -max is above full against it; -fast is as full."""
    values = {"full": [0.60, 0.61], "-scale": [0.20, 0.21], "-max": [0.99, 0.98], "-fast": [0.60, 0.62]}
    found = find_agreement(a_run(tmp_path, values))
    assert (found.confirmed, found.refuted) == (3, 2)
    assert "3 pairs are confirmed and 2 refuted" in to_markdown(build_tables(ABLATION, tmp_path)[0])


def test_every_row_as_published_is_shown_and_says_what_became_of_it(tmp_path):
    study = find_study("hpl/table2")
    table = a_run(tmp_path, {"hpl-nca": [0.7]}, study=study, protocol="papers")
    assert {line.row.name for line in table.lines} == {row.name for row in study.rows}
    assert (lines_of(table)["mic_star"].status, lines_of(table)["hpl-pa"].status) == ("cited", "not run")
    assert "| mic_star | 77.2 [S] |" in to_markdown(table)


def test_concatenated_scores_are_columns_of_their_own(tmp_path):
    table = a_run(tmp_path, {"full": [0.5]}, protocol="folds", comparable=False, concatenated_recall_at_1=0.6)
    assert "concatenated_recall_at_1" in table.metrics
    assert table.lines[0].ours["concatenated_recall_at_1"].mean == pytest.approx(60)


def test_costs_are_not_turned_into_percent_and_text_columns_are_printed(tmp_path):
    cost = find_study("proxy_anchor/table1")
    table = a_run(tmp_path, {"proxy_anchor": [0.5]}, study=cost, seconds_per_epoch=1.25)
    assert lines_of(table)["proxy_anchor"].ours["seconds_per_epoch"].mean == 1.25
    assert "| proxy_anchor | O(MC) | - | 1.25 |" in to_markdown(table)


def test_files_agree_and_the_page_holds_the_figure(tmp_path):
    figure = find_study("proxy_anchor/figure6")
    a_run(tmp_path, {"alpha-32-delta-0.1": [0.5]}, study=figure)
    (table,) = write_tables(figure, tmp_path)
    folder = tmp_path / figure.id / "as_published"
    page = (folder / "table.html").read_text(encoding="utf-8")
    assert "data:image/png;base64," in page
    assert "<td>alpha-32-delta-0.1</td>" in page
    assert json.loads((folder / "table.json").read_text(encoding="utf-8")) == as_tree(table)


@pytest.mark.parametrize(
    "name", ["proxy_anchor/figure1", "proxy_anchor/figure5", "proxynca_pp/figure4", "hpl/figure2"]
)
@pytest.mark.parametrize("comparable", [True, False])
def test_figures_are_drawn_with_and_without_published_points(tmp_path, name, comparable):
    study = find_study(name)
    a_run(tmp_path, {row.name: [0.5, 0.6] for row in study.rows}, study=study, comparable=comparable)
    write_tables(study, tmp_path)
    (image,) = tmp_path.rglob("figure.png")
    assert image.read_bytes().startswith(b"\x89PNG")


def test_retrievals_are_drawn_from_the_images(tmp_path, squares):
    study = find_study("hpl/figure3")
    files = [str(squares.file(row)) for row in range(5)]
    hits = [{"file": file, "same_class": file == files[1]} for file in files[1:]]
    facts = {"retrievals": [{"query": files[0], "hits": hits}]}
    table = a_run(tmp_path, {"sop-hpl-nca": [0.5]}, study=study, facts=facts)
    assert lines_of(table)["sop-hpl-nca"].retrievals[0]["query"] == files[0]
    write_tables(study, tmp_path)
    assert list(tmp_path.rglob("figure.png"))


def test_a_metric_that_could_not_be_computed_is_left_out(tmp_path):
    line = lines_of(a_run(tmp_path, {"full": [float("nan"), 0.5]}))["full"]
    assert (line.ours["recall_at_1"].mean, line.ours["recall_at_1"].n) == (50.0, 1)
