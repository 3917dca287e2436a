"""Tables: arithmetic by hand, and no published number beside one that it cannot be compared with."""

import json

import pytest

from lookalike.studies import find_study
from lookalike.studies.plan import Plan, PlannedRow
from lookalike.studies.render import PUBLISHED_APART, to_markdown, write_table
from lookalike.studies.table import as_tree, build_table, half_width

ABLATION = find_study("proxynca_pp/table7")


def a_run(out, values, *, study=ABLATION, own_data=True, comparable=True, protocol="held_out", **extra):
    """Plan and scores on disk: for each row its recall_at_1 by seed."""
    rows = {}
    for name, seeds in values.items():
        keys = [f"{name}-{number}" for number in range(len(seeds))]
        for key, value in zip(keys, seeds, strict=True):
            if value is None:
                continue
            score = {
                "metrics": {"recall_at_1": value, **extra},
                "selected_on": "validation classes",
                "kept": "trained",
                "seconds": 3.0,
                "curve": [{"epoch": e, "seconds": float(e), "recall_at_1": 0.1 * e} for e in range(3)],
                "facts": {},
            }
            (out / "runs" / key).mkdir(parents=True, exist_ok=True)
            (out / "runs" / key / "score.json").write_text(json.dumps(score))
        rows[name] = PlannedRow("cub200" if own_data else "squares", own_data, keys)
    plan = Plan(
        study.id, "v", protocol, "" if comparable else "mode frozen", comparable, list(study.metrics), rows
    )
    folder = out / study.id / "v"
    plan.save(folder)
    return folder


def test_mean_interval_and_difference_by_hand(tmp_path):
    folder = a_run(tmp_path, {"full": [0.70, 0.72, 0.74], "-max": [0.65]})
    table = build_table(ABLATION, folder, tmp_path)
    full, without_max = table.lines
    assert full.ours["recall_at_1"].mean == pytest.approx(72.0)
    assert half_width(full.ours["recall_at_1"]) == pytest.approx(4.302653 * 2 / 3**0.5, rel=1e-6)
    assert full.difference("recall_at_1") == pytest.approx(-0.2)
    assert half_width(without_max.ours["recall_at_1"]) is None
    text = to_markdown(table)
    assert "| full | 72.2 [S] | 72.0 ± 5.0 | -0.2 | 3 | validation classes | trained | 3 |" in text
    assert "Not the paper's experiment" not in text


@pytest.mark.parametrize(("own_data", "comparable"), [(False, True), (True, False), (False, False)])
def test_other_data_or_settings_never_stand_beside_a_published_number(tmp_path, own_data, comparable):
    folder = a_run(tmp_path, {"full": [0.5]}, own_data=own_data, comparable=comparable)
    table = build_table(ABLATION, folder, tmp_path)
    assert "Not the paper's experiment" in table.title
    ours, apart = to_markdown(table).split(f"**{PUBLISHED_APART}**")
    assert "72.2" not in ours
    assert "72.2 [S]" in apart
    tree = as_tree(table)
    assert "published" not in tree["rows"][0]
    assert "difference" not in tree["rows"][0]
    assert tree["published_elsewhere"]["full"]["recall_at_1"]["value"] == 72.2


def test_selection_on_test_stands_in_the_title(tmp_path):
    folder = a_run(tmp_path, {"full": [0.5]}, protocol="papers")
    assert "selected on test" in build_table(ABLATION, folder, tmp_path).title


def test_order_of_rows_by_hand(tmp_path):
    """Published full > -fast > -max > -scale; ours swaps the last two: 5 of 6. Equal ones do not count."""
    folder = a_run(
        tmp_path, {"full": [0.9], "-fast": [0.8], "-max": [0.3], "-scale": [0.4]}, comparable=False
    )
    table = build_table(ABLATION, folder, tmp_path)
    assert table.agreement() == ("recall_at_1", 5, 6)
    assert "5 of 6 pairs as published" in to_markdown(table)
    equal = a_run(tmp_path / "equal", {"-norm": [0.9], "-cbs": [0.8]})
    assert build_table(ABLATION, equal, tmp_path / "equal").agreement() is None


def test_missing_seeds_are_counted_and_cited_rows_say_so(tmp_path):
    folder = a_run(tmp_path, {"full": [0.7, None, None]})
    assert "| 1 of 3 |" in to_markdown(build_table(ABLATION, folder, tmp_path))


def test_concatenated_scores_are_columns_of_their_own(tmp_path):
    folder = a_run(tmp_path, {"full": [0.5]}, protocol="folds", concatenated_recall_at_1=0.6)
    table = build_table(ABLATION, folder, tmp_path)
    assert table.metrics == ("recall_at_1", "concatenated_recall_at_1")
    assert table.lines[0].ours["concatenated_recall_at_1"].mean == pytest.approx(60)


def test_costs_are_not_turned_into_percent(tmp_path):
    cost = find_study("proxy_anchor/table1")
    folder = a_run(tmp_path, {"proxy_anchor": [0.5]}, study=cost, seconds_per_epoch=1.25)
    table = build_table(cost, folder, tmp_path)
    assert table.lines[0].ours["seconds_per_epoch"].mean == 1.25


def test_files_agree_and_the_page_holds_the_image(tmp_path):
    figure = find_study("proxy_anchor/figure6")
    folder = a_run(tmp_path, {"alpha-32": [0.5]}, study=figure)
    table = write_table(figure, folder, tmp_path)
    page = (folder / "table.html").read_text()
    assert "data:image/png;base64," in page
    assert "<td>alpha-32</td>" in page
    assert json.loads((folder / "table.json").read_text()) == as_tree(table)


@pytest.mark.parametrize(
    "name", ["proxy_anchor/figure1", "proxy_anchor/figure5", "proxynca_pp/figure4", "hpl/t_curve"]
)
@pytest.mark.parametrize("comparable", [True, False])
def test_figures_are_drawn_with_and_without_published_points(tmp_path, name, comparable):
    study = find_study(name)
    values = {row.name: [0.5, 0.6] for row in study.rows}
    folder = a_run(tmp_path, values, study=study, comparable=comparable)
    write_table(study, folder, tmp_path)
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_a_metric_that_could_not_be_computed_is_left_out(tmp_path):
    folder = a_run(tmp_path, {"full": [float("nan"), 0.5]})
    (line,) = build_table(ABLATION, folder, tmp_path).lines
    assert (line.ours["recall_at_1"].mean, line.ours["recall_at_1"].n) == (50.0, 1)
