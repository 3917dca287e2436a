"""Running a study: nothing twice, nothing lost, and any number of processes."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from filelock import FileLock

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import CoarseLevel, LabeledImages
from lookalike.embedding import map_images
from lookalike.errors import FileError, UnknownNameError
from lookalike.studies import find_study, results
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images
from lookalike.studies.plan import Options, wanted_metrics
from lookalike.studies.protocols import PROTOCOLS, Protocol, Score
from lookalike.studies.results import AS_PUBLISHED, RESULTS, append_result, folder_name, load_results, run_key
from lookalike.studies.run import run_study

ABLATION = find_study("proxynca_pp/table7")
TINY = ("model.weights=none", "model.embedding_dim=16", "train.epochs=2")
SMALL = Adaptation(backbone="test_resnet", mode="frozen", settings=TINY)


class Given(Images):
    """One table for every row."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def of(self, name):
        return self.table


@pytest.fixture
def counted(monkeypatch):
    """Protocols that train nothing and remember what they were asked for."""
    asked = []

    def run(task):
        asked.append((task.experiment.loss.arguments.get("temperature"), task.experiment.seed))
        (task.folder / "model.safetensors").write_text("weights")
        value = 0.5 + 0.01 * task.experiment.seed
        metrics = dict.fromkeys(task.metrics, value)
        return Score(metrics, "validation classes", "trained", 2.0, facts={"retrievals": []})

    for name in PROTOCOLS:
        monkeypatch.setitem(PROTOCOLS, name, Protocol("counts", "validation classes", run))
    return asked


def options(out, table, **changes):
    return Options(out=out, images=Given(table), **({"adaptation": SMALL, "seeds": 1} | changes))


def of(out, study=ABLATION):
    return [result for result in load_results(out) if result.study == study.id]


def test_what_has_a_result_is_never_run_again(tmp_path, squares, counted):
    first = run_study(ABLATION, options(tmp_path, squares))
    assert len(first.ran) == len(counted) == 7
    second = run_study(ABLATION, options(tmp_path, squares))
    assert (second.ran, len(second.known), len(counted)) == ([], 7, 7)
    more = run_study(ABLATION, options(tmp_path, squares, seeds=2))
    assert (len(more.ran), len(more.known)) == (7, 7)


def test_seeds_are_the_outer_loop_so_that_a_short_run_gives_a_whole_table(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full", "-scale"), seeds=2))
    assert [seed for _, seed in counted] == [0, 0, 1, 1]


def test_an_experiment_is_shared_between_studies(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares))
    other = find_study("proxynca_pp/table10")
    done = run_study(other, options(tmp_path, squares, rows=("+norm+prob+cbs+scale+fast-GMP",)))
    assert (done.ran, done.known) == ([], ["+norm+prob+cbs+scale+fast-GMP, seed 0"])
    assert [result.row for result in of(tmp_path, other)] == ["+norm+prob+cbs+scale+fast-GMP"]


def test_a_result_that_lacks_a_metric_is_measured_again(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full",)))
    similarity = find_study("proxynca_pp/similarity")
    assert run_study(similarity, options(tmp_path, squares, rows=("cub200",))).ran == ["cub200, seed 0"]


def test_a_changed_setting_is_another_run_and_another_table(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full",)))
    warmer = Adaptation("test_resnet", "frozen", (*TINY, "loss.temperature=0.5"))
    done = run_study(ABLATION, options(tmp_path, squares, rows=("full",), adaptation=warmer))
    assert done.ran
    assert len({result.conditions for result in of(tmp_path)}) == 2


def test_each_row_runs_under_its_own_protocol_and_under_another_it_is_not_comparable(
    tmp_path, squares, counted
):
    """squares are called cub200 here, so that nothing but the protocol can differ."""
    table = replace(squares, name="cub200")
    plain = {"adaptation": Adaptation(), "rows": ("full",)}
    run_study(ABLATION, options(tmp_path, table, **plain))
    run_study(ABLATION, options(tmp_path, table, **plain, protocol="held_out"))
    found = {result.protocol: (result.conditions, result.comparable) for result in of(tmp_path)}
    assert found == {"two_stage": (AS_PUBLISHED, True), "held_out": ("protocol held_out", False)}
    run_study(ABLATION, options(tmp_path, squares, **plain))
    assert [r.comparable for r in of(tmp_path) if r.dataset == "squares"] == [False]


def test_rows_of_two_systems_run_under_two_protocols(tmp_path, squares, counted):
    table3 = find_study("proxynca_pp/table3")
    run_study(table3, options(tmp_path, squares, rows=("proxynca_pp-512", "margin-128")))
    assert {r.row: r.protocol for r in of(tmp_path, table3)} == {
        "proxynca_pp-512": "two_stage",
        "margin-128": "papers",
    }


def test_a_run_that_another_process_holds_is_passed_over(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path / "look", squares))
    key = next(result.key for result in of(tmp_path / "look") if result.row == "full")
    (tmp_path / "runs" / key).mkdir(parents=True)
    with FileLock(tmp_path / "runs" / key / ".lock"):
        done = run_study(ABLATION, options(tmp_path, squares))
    assert done.elsewhere == ["full, seed 0"]
    assert len(done.ran) == 6
    assert run_study(ABLATION, options(tmp_path, squares)).ran == ["full, seed 0"]


def test_a_failure_is_noted_the_other_rows_continue_and_it_is_tried_again(tmp_path, squares):
    settings = (*TINY, "model.pooling=k_max", "model.pooling_k=999")
    small = options(
        tmp_path,
        squares,
        adaptation=Adaptation("test_resnet", "frozen", settings),
        rows=("full", "-scale"),
        protocol="held_out",
    )
    for _ in range(2):
        done = run_study(ABLATION, small)
        assert set(done.failed) == {"full, seed 0", "-scale, seed 0"}
        assert "k=999" in done.failed["full, seed 0"]
        assert all("k=999" in result.error for result in of(tmp_path))


def test_a_used_up_budget_starts_nothing_more(tmp_path, squares, counted):
    done = run_study(ABLATION, options(tmp_path, squares, budget_seconds=0.0))
    assert done.out_of_time
    assert done.ran == counted == []


def test_weights_are_dropped_unless_asked_for(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path / "drop", squares, rows=("full",)))
    run_study(ABLATION, options(tmp_path / "keep", squares, rows=("full",), keep_models=True))
    assert not list((tmp_path / "drop").rglob("*.safetensors"))
    assert list((tmp_path / "keep").rglob("*.safetensors"))


def test_rows_and_protocols_that_do_not_exist_are_refused(tmp_path, squares):
    with pytest.raises(UnknownNameError, match="did you mean 'full'"):
        run_study(ABLATION, options(tmp_path, squares, rows=("ful",)))
    with pytest.raises(UnknownNameError, match="did you mean 'held_out'"):
        run_study(ABLATION, options(tmp_path, squares, protocol="held_ot"))


def test_a_row_without_its_images_says_what_is_missing(tmp_path, counted):
    done = run_study(ABLATION, Options(out=tmp_path, images=Images(tmp_path), rows=("full",)))
    assert re.search("no CUB-200-2011 in .*--dataset", done.skipped["full"])


def test_a_line_that_a_crash_cut_off_is_left_out_and_another_damaged_one_is_named(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full", "-max")))
    file = tmp_path / RESULTS
    file.write_text(file.read_text()[:-20])
    (left,) = of(tmp_path)
    append_result(tmp_path, left)
    with pytest.raises(FileError, match=r"results\.jsonl, line 2 is no result"):
        load_results(tmp_path)


def test_only_the_recalls_of_a_rows_data_set_are_measured():
    wanted = wanted_metrics(find_study("proxy_anchor/readme"), "cub200")
    assert {key for key in wanted if key.startswith("recall")} == {f"recall_at_{k}" for k in (1, 2, 4, 8)}


def test_two_stage_and_papers_run_for_real(tmp_path, squares):
    for protocol, selected in (("papers", "test"), ("two_stage", "validation classes")):
        done = run_study(ABLATION, options(tmp_path, squares, rows=("full",), protocol=protocol))
        assert done.failed == {}
        result = next(result for result in of(tmp_path) if result.protocol == protocol)
        assert result.score["selected_on"] == selected
        assert json.loads((tmp_path / "runs" / result.key / "run" / "result.json").read_text())["seed"] == 0


def test_rows_that_pool_otherwise_share_one_pass_over_the_images(tmp_path, squares, monkeypatch):
    passes = []
    monkeypatch.setattr(
        "lookalike.training.feature_cache.cache_folder", lambda: tmp_path / "cache"
    )  # an empty one

    def counted(function, dataset, **settings):
        passes.append(len(dataset))
        return map_images(function, dataset, **settings)

    monkeypatch.setattr("lookalike.training.feature_cache.map_images", counted)
    rows = ("full", "-max", "-norm", "-scale")
    done = run_study(ABLATION, options(tmp_path, squares, rows=rows, protocol="held_out"))
    assert len(done.ran) == 4
    assert len(passes) == 2  # the training classes' images and the test classes'
    assert sum(passes) == len(squares)


def test_folder_names_are_safe_short_and_distinct():
    assert folder_name("my photos, loss.base={name: x/y}") == "my_photos_loss.base=_name_x_y_"
    long = [folder_name("x" * 200 + ending) for ending in ("one", "two")]
    assert len(set(long)) == 2
    assert all(len(name) == 120 for name in long)


def named(table, groups):
    """`table` under the name of iNaturalist, its training classes in `groups` taxonomic classes."""
    parents = np.arange(table.num_classes) % groups
    level = CoarseLevel("class", parents, tuple(f"taxon {i}" for i in range(groups)))
    return replace(table, name="inaturalist", coarse=(level,))


@pytest.mark.parametrize(
    ("groups", "expected"), [(48, ""), (3, "the paper has 48 given groups, .* class 3;")]
)
def test_groups_of_another_number_are_noted_and_not_comparable(groups, expected, tmp_path, counted):
    many = LabeledImages(
        tmp_path,
        tuple(f"{i}.png" for i in range(400)),
        np.arange(400) // 2,
        tuple(f"{c:03d}" for c in range(200)),
    )
    study = find_study("hpl/table4")
    rows = ("proxy_nca", "hpl-nca-given-48")
    out = tmp_path / "out"
    done = run_study(study, options(out, named(many, groups), rows=rows, adaptation=Adaptation()))
    assert re.match(expected, done.notes.get("hpl-nca-given-48", ""))
    assert len(done.notes) == bool(expected)
    assert [result.comparable for result in of(out, study)] == [True, not expected]


def test_a_search_of_other_length_is_named_in_the_conditions(tmp_path, squares, counted):
    study, rows = find_study("hpl/protocol2"), ("cars196-hpl-pa",)
    for trials, words in ((None, False), (50, False), (2, True)):
        done = run_study(study, options(tmp_path, squares, rows=rows, trials=trials))
        assert ("2 trials" in done.conditions) is words
    plain = run_study(ABLATION, options(tmp_path, squares, rows=("full",), trials=2))
    assert "trials" not in plain.conditions


def test_another_version_of_the_package_runs_everything_again(squares, monkeypatch):
    experiment = Experiment()
    before = run_key(experiment, squares, "held_out", {})
    assert run_key(experiment, squares, "held_out", {}) == before
    monkeypatch.setattr(results, "version", lambda name: "99")
    assert run_key(experiment, squares, "held_out", {}) != before
