"""Running a study: nothing twice, nothing lost, and any number of processes."""

import json
import re

import pytest
from filelock import FileLock

from lookalike.embedding import map_images
from lookalike.errors import UnknownNameError
from lookalike.studies import find_study
from lookalike.studies.adapt import Adaptation
from lookalike.studies.datasets import Images
from lookalike.studies.plan import folder_name, load_plan, plans_of, score_of
from lookalike.studies.protocols import PROTOCOLS, Protocol, Score
from lookalike.studies.run import Options, run_study

ABLATION = find_study("proxynca_pp/table7")
SMALL = Adaptation(backbone="test_resnet", mode="frozen", settings=("model.weights=none",))


class Given(Images):
    """One table for every row."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def of(self, name):
        return self.table


@pytest.fixture
def counted(monkeypatch):
    """A protocol that trains nothing and remembers what it was asked for."""
    asked = []

    def run(task):
        asked.append((task.experiment.loss.arguments.get("temperature"), task.experiment.seed))
        (task.folder / "model.safetensors").write_text("weights")
        value = 0.5 + 0.01 * task.experiment.seed
        return Score({"recall_at_1": value, "map_at_r": 0.1}, "validation classes", "trained", 2.0)

    monkeypatch.setitem(PROTOCOLS, "held_out", Protocol("counts", "validation classes", run))
    return asked


def options(out, table, **changes):
    return Options(out=out, images=Given(table), **({"adaptation": SMALL, "seeds": 1} | changes))


def test_a_finished_unit_is_never_run_again(tmp_path, squares, counted):
    first = run_study(ABLATION, options(tmp_path, squares))
    assert len(first.ran) == len(counted) == 7
    second = run_study(ABLATION, options(tmp_path, squares))
    assert (second.ran, len(second.known), len(counted)) == ([], 7, 7)
    more = run_study(ABLATION, options(tmp_path, squares, seeds=2))
    assert (len(more.ran), len(more.known)) == (7, 7)


def test_seeds_are_the_outer_loop_so_that_a_short_run_gives_a_whole_table(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full", "-scale"), seeds=2))
    assert [seed for _, seed in counted] == [0, 0, 1, 1]


def test_a_unit_is_shared_between_studies(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full",)))
    other = run_study(find_study("proxynca_pp/table10"), options(tmp_path, squares, rows=("+fast",)))
    assert (other.ran, len(other.known)) == ([], 1)


def test_a_changed_setting_is_another_unit_and_another_table(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full",)))
    warmer = Adaptation("test_resnet", "frozen", ("model.weights=none", "loss.temperature=0.5"))
    assert run_study(ABLATION, options(tmp_path, squares, rows=("full",), adaptation=warmer)).ran
    assert len(plans_of(tmp_path, ABLATION)) == 2


def test_a_unit_that_another_process_holds_is_passed_over(tmp_path, squares, counted):
    key = next(
        iter(load_plan(run_study(ABLATION, options(tmp_path / "look", squares)).folder).rows["full"].keys)
    )
    (tmp_path / "runs" / key).mkdir(parents=True)
    with FileLock(tmp_path / "runs" / key / ".lock"):
        done = run_study(ABLATION, options(tmp_path, squares))
    assert done.elsewhere == ["full, seed 0"]
    assert len(done.ran) == 6
    assert run_study(ABLATION, options(tmp_path, squares)).ran == ["full, seed 0"]


def test_two_processes_with_different_rows_share_one_plan(tmp_path, squares, counted):
    run_study(ABLATION, options(tmp_path, squares, rows=("full",), seeds=2))
    done = run_study(ABLATION, options(tmp_path, squares, rows=("-max",)))
    rows = load_plan(done.folder).rows
    assert {name: len(row.keys) for name, row in rows.items()} == {"full": 2, "-max": 1}


def test_a_failure_is_noted_and_the_other_rows_go_on(tmp_path, squares):
    broken = Adaptation(
        "test_resnet", "frozen", ("model.weights=none", "model.pooling=k_max", "model.pooling_k=999")
    )
    small = options(tmp_path, squares, adaptation=broken, rows=("full", "-scale"))
    done = run_study(ABLATION, small)
    assert set(done.failed) == {"full, seed 0", "-scale, seed 0"}
    assert "k=999" in done.failed["full, seed 0"]
    assert list(tmp_path.glob("runs/*/failed.txt"))


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


def test_two_stage_and_papers_run_for_real(tmp_path, squares):
    for protocol, selected in (("papers", "test"), ("two_stage", "validation classes")):
        done = run_study(ABLATION, options(tmp_path, squares, rows=("full",), protocol=protocol))
        assert done.failed == {}
        key = load_plan(done.folder).rows["full"].keys[0]
        score = score_of(tmp_path, key)
        assert score["selected_on"] == selected
        assert json.loads((tmp_path / "runs" / key / "run" / "result.json").read_text())["seed"] == 0


def test_rows_that_pool_otherwise_share_one_pass_over_the_images(tmp_path, squares, monkeypatch):
    passes = []
    monkeypatch.setattr(
        "lookalike.training.feature_cache.cache_folder", lambda: tmp_path / "cache"
    )  # an empty one

    def counted(function, dataset, **settings):
        passes.append(len(dataset))
        return map_images(function, dataset, **settings)

    monkeypatch.setattr("lookalike.training.feature_cache.map_images", counted)
    done = run_study(ABLATION, options(tmp_path, squares, rows=("full", "-max", "-norm", "-scale")))
    assert len(done.ran) == 4
    assert len(passes) == 2  # the training classes' images and the test classes'
    assert sum(passes) == len(squares)


def test_folder_names_are_safe_short_and_distinct():
    assert folder_name(["my photos", "", "loss.base={name: x/y}"]) == "my_photos-loss.base=_name_x_y_"
    long = [folder_name(["x" * 200, ending]) for ending in ("one", "two")]
    assert len(set(long)) == 2
    assert all(len(name) == 120 for name in long)
