"""Training that starts from another run: other data, kept proxies, and no test class that the model has seen."""

import shutil

import numpy as np
import pytest
import torch

from lookalike.cli.train import train
from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.errors import ArgumentError, DataError
from lookalike.losses.functional import unit_rows
from lookalike.training.context import RunOptions
from lookalike.training.evaluate_run import evaluate_run
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from lookalike.training.start_from import PROXIES, class_means, own_split, seen_by
from lookalike.training.tensor_tree import load_tree
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

pytestmark = pytest.mark.usefixtures("own_cache")


class Said(Progress):
    def __init__(self):
        self.text = ""

    def say(self, text):
        self.text += f"{text}\n"


def toy(*more):
    return Experiment().override([*TOY_SETTINGS, "train.epochs=2", *more])


def named_test(table: LabeledImages, test_classes) -> LabeledImages:
    """The table with these classes as its own test split."""
    words = np.where(np.isin(table.labels, list(test_classes)), "test", "train")
    return LabeledImages(table.root, table.paths, table.labels, table.class_names, split=words)


def proxies_of(run):
    tree = load_tree(RunDir(run).state_path(PROXIES))
    return dict(zip(tree["class_names"], tree["proxies"], strict=True))


@pytest.mark.parametrize("finish", ["none", "whitened"])
@pytest.mark.parametrize("refit", ["false", "true"])
@pytest.mark.parametrize("mode", ["frozen", "partial", "finetune"])
def test_proxies_of_known_classes_are_kept_by_name(mode, refit, finish, squares, tmp_path):
    settings = [f"train.mode={mode}", f"train.refit={refit}", f"model.finish={finish}"]
    fit(squares.of_classes(range(12)), tmp_path / "first", toy(*settings))
    said = Said()
    fit(
        squares.of_classes(range(15, 1, -1)),  # two classes less, four more, in another order
        tmp_path / "second",
        toy(f"train.mode={mode}", "train.epochs=0", "model.finish=none"),
        start_from=tmp_path / "first",
        options=RunOptions(progress=said),
    )
    before, after = proxies_of(tmp_path / "first"), proxies_of(tmp_path / "second")
    known = before.keys() & after.keys()
    assert known
    assert after.keys() - known
    for name in known:
        assert torch.equal(before[name], after[name])
    assert f"the proxies of {len(known)} of {len(after)} classes are those of" in said.text


def test_class_means_by_hand():
    embeddings = torch.tensor([[2.0, 0.0], [0.0, 3.0], [0.0, -1.0]])
    means = class_means(embeddings, torch.tensor([0, 0, 1]), 2)
    torch.testing.assert_close(means, unit_rows(torch.tensor([[1.0, 1.0], [0.0, -1.0]])))


@pytest.mark.parametrize(
    ("loss", "kept"),
    [("proxy_anchor", True), ("soft_triple", False), ("contrastive", False), ("cos_face", True)],
)
def test_losses_whose_proxies_do_not_fit_start_at_their_own(loss, kept, squares, tmp_path):
    fit(squares.of_classes(range(12)), tmp_path / "first", toy("model.finish=none"))
    said, settings = Said(), ["train.epochs=0", f"loss.name={loss}", "batch.sampler=balanced"]
    settings += ["batch.classes=4", "batch.per_class=2"]
    fit(
        squares,
        tmp_path / "second",
        toy(*settings),
        start_from=tmp_path / "first",
        options=RunOptions(progress=said),
    )
    assert ("classes are those of" in said.text) == kept


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_classes_that_the_model_has_seen_are_not_held_out_again(seed, squares, tmp_path):
    fit(squares.of_classes(range(10)), tmp_path / "first", toy())
    seen = seen_by(RunDir(tmp_path / "first"))
    fit(squares, tmp_path / "second", toy(f"seed={seed}"), start_from=tmp_path / "first")
    split = own_split(RunDir(tmp_path / "second"), squares)
    assert not seen.any & set(split.test.class_names)
    assert not seen.trained & set(split.validation.class_names)
    assert seen_by(RunDir(tmp_path / "second")).trained == seen.trained | set(split.train.class_names)


def test_the_same_data_is_split_as_before(squares, tmp_path):
    fit(squares, tmp_path / "first", toy())
    fit(squares, tmp_path / "second", toy(), start_from=tmp_path / "first")
    digests = [RunDir(tmp_path / run).read_json("data.json")["split_digest"] for run in ("first", "second")]
    assert digests[0] == digests[1]


def test_a_run_remembers_where_it_started_from_wherever_it_is_resumed(squares, tmp_path, monkeypatch):
    fit(squares, tmp_path / "first", toy("train.epochs=1"))
    monkeypatch.chdir(tmp_path)
    fit(squares, "second", toy("train.epochs=1"), start_from="first")
    assert RunDir("second").read_json("data.json")["start_from"] == str(tmp_path / "first")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    fit(squares, tmp_path / "second", resume=True)


def test_a_run_after_a_run_after_a_run_knows_all_classes(squares, tmp_path):
    fit(squares.of_classes(range(6)), tmp_path / "0", toy())
    for number in (1, 2):
        part = squares.of_classes(range(5 * number, 5 * number + 6))
        fit(part, tmp_path / f"{number}", toy("seed=3"), start_from=tmp_path / f"{number - 1}")
    first, last = (seen_by(RunDir(tmp_path / run)) for run in ("0", "2"))
    assert first.any < last.any
    seen = [number for number, name in enumerate(squares.class_names) if name in last.any]
    with pytest.raises(DataError, match="0 of its 6 classes are new to the model"):
        fit(squares.of_classes(seen[:6]), tmp_path / "3", toy(), start_from=tmp_path / "2")


def test_named_test_classes_that_were_trained_on_are_refused_before_anything_is_written(squares, tmp_path):
    fit(named_test(squares, range(8, 16)), tmp_path / "first", toy())
    other = named_test(squares, (6, 7, 8, 9))
    with pytest.raises(
        DataError, match=r"trained on 2 of the 4 test classes, such as 'color 06'.*--test-on-trained"
    ):
        fit(other, tmp_path / "second", toy(), start_from=tmp_path / "first")
    assert not (tmp_path / "second").exists()


def test_or_they_are_marked_in_the_result_with_scores_without_them(squares, tmp_path):
    fit(named_test(squares, range(8, 16)), tmp_path / "first", toy())
    other, said = named_test(squares, (6, 7, 8, 9)), Said()
    arguments = {
        "start_from": tmp_path / "first",
        "test_on_trained": True,
        "options": RunOptions(progress=said),
    }
    result = fit(other, tmp_path / "second", toy(), **arguments).result
    marked = result["test_trained_on"]
    assert list(marked["classes"]) == ["color 06", "color 07"]
    assert marked["images"] == 8
    assert marked["test_without"]["counts"]["queries"] == 8
    assert result["test"]["counts"]["queries"] == 16
    assert "trained on 2 of the 4 test classes" in said.text
    again = fit(other, tmp_path / "second", resume=True).result
    assert again["test_trained_on"]["classes"] == marked["classes"]


def test_an_image_that_was_trained_on_is_refused_whatever_its_class_is_called_now(squares, tmp_path):
    fit(named_test(squares, range(8, 16)), tmp_path / "first", toy())
    renamed = LabeledImages(
        squares.root, squares.paths, squares.labels, tuple(f"new {name}" for name in squares.class_names)
    )
    with pytest.raises(DataError, match=r"8 of the 16 test images, such as 06-0\.png"):
        fit(named_test(renamed, (6, 7, 8, 9)), tmp_path / "second", toy(), start_from=tmp_path / "first")


def test_a_run_that_started_from_another_is_evaluated_and_resumed_on_its_own_split(
    squares, tmp_path, monkeypatch
):
    fit(squares.of_classes(range(10)), tmp_path / "first", toy())
    done = fit(squares, tmp_path / "second", toy(), start_from=tmp_path / "first")
    resumed = fit(squares, tmp_path / "second", resume=True)
    assert resumed.result["test"] == done.result["test"]
    shutil.rmtree(tmp_path / "first")
    monkeypatch.setattr("lookalike.training.run_images.load_images", lambda *_, **__: squares)
    scores = evaluate_run(RunDir(tmp_path / "second"), "squares", device="cpu")
    assert scores.to_dict()["recall_at_1"] == pytest.approx(done.result["test"]["recall_at_1"], abs=1e-3)


def test_validation_classes_that_were_trained_on_are_spoken_of(squares, tmp_path):
    fit(named_test(squares, range(8, 16)), tmp_path / "first", toy("train.refit=true"))
    said = Said()
    second = named_test(squares, range(8, 16))
    fit(second, tmp_path / "second", toy(), start_from=tmp_path / "first", options=RunOptions(progress=said))
    assert "trained on 2 of the 2 validation classes" in said.text


def test_the_flag_needs_a_run_to_start_from(tmp_path):
    with pytest.raises(ArgumentError, match="--test-on-trained goes with --from"):
        train("glyphs", tmp_path / "run", test_on_trained=True, quiet=True)
