"""The main job on a drawn data set: what it leaves, that it goes on exactly, and that it never lies."""

import json

import numpy as np
import pytest
import torch

from lookalike.config.experiment import Experiment, load_experiment
from lookalike.embedding import embed
from lookalike.errors import ArgumentError, FileError, TrainingError
from lookalike.models.checkpoint import load_model
from lookalike.training.context import RunOptions
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from lookalike.training.tensor_tree import load_tree
from lookalike.training.trainable import TrainablePart
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

MODES = ("frozen", "partial", "finetune")
pytestmark = pytest.mark.usefixtures("own_cache")


def toy(mode="frozen", *more):
    return Experiment().override([*TOY_SETTINGS, "train.epochs=3", f"train.mode={mode}", *more])


class StopAfter(Progress):
    """Interrupts, as Ctrl-C would, when epoch `epoch` has been told."""

    def __init__(self, epoch):
        self.words = f"epoch {epoch:>3}:"

    def say(self, text):
        if text.startswith(self.words):
            raise KeyboardInterrupt


@pytest.mark.parametrize("mode", MODES)
def test_an_interrupted_run_continues_to_the_same_numbers(mode, squares, tmp_path):
    settings = toy(mode, "train.refit=true", "batch.sampler=balanced", "batch.classes=4", "batch.per_class=2")
    whole = fit(squares, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        fit(squares, tmp_path / "halted", settings, options=RunOptions(progress=StopAfter(1)))
    assert load_model(tmp_path / "halted")  # usable as it is
    resumed = fit(squares, tmp_path / "halted", resume=True)
    for part in ("start", "validation", "test", "selected"):
        assert resumed.result[part] == whole.result[part]
    np.testing.assert_array_equal(resumed.final, whole.final)
    one, other = (load_tree(tmp_path / name / "training_state" / "select") for name in ("whole", "halted"))
    assert [r["loss"] for r in one["history"]] == [r["loss"] for r in other["history"]]
    assert torch.equal(one["loss"]["proxies"], other["loss"]["proxies"])


@pytest.mark.parametrize("proxy_optimizer", ["row_sparse_adamw", "row_sparse_adamw_small"])
def test_sampled_classes_with_sparse_gradients_train_and_continue(proxy_optimizer, squares, tmp_path):
    settings = toy(
        "frozen",
        "loss.name=sampled",
        "loss.fraction=1",
        "loss.sparse_gradients=true",
        f"train.proxy_optimizer={proxy_optimizer}",
    )
    whole = fit(squares, tmp_path / "whole", settings)
    with pytest.raises(KeyboardInterrupt):
        fit(squares, tmp_path / "halted", settings, options=RunOptions(progress=StopAfter(1)))
    np.testing.assert_array_equal(fit(squares, tmp_path / "halted", resume=True).final, whole.final)


def test_row_sparse_steps_of_dense_gradients_are_the_dense_optimizers(squares, tmp_path):
    same, rows = (
        fit(squares, tmp_path / name, toy("frozen", "train.weight_decay=0", f"train.proxy_optimizer={name}"))
        for name in ("same", "row_sparse_adamw")
    )
    np.testing.assert_allclose(same.final, rows.final, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_same_settings_give_the_same_run(mode, squares, tmp_path):
    first, second = (fit(squares, tmp_path / name, toy(mode)) for name in ("a", "b"))
    np.testing.assert_array_equal(first.final, second.final)


@pytest.mark.parametrize("mode", MODES)
def test_training_moves_only_what_the_mode_trains(mode, squares, tmp_path):
    fit(
        squares,
        tmp_path / "run",
        toy(mode, "train.patience=9", "model.finish=none", "train.batch_norm=frozen"),
    )
    tree = load_tree(tmp_path / "run" / "training_state" / "select")
    start = fit(squares, tmp_path / "start", toy(mode, "train.epochs=0", "model.finish=none"))
    assert start.result["selected"]["what"] == "start"
    before = load_model(tmp_path / "start")[0].state_dict()
    moved = {name.split(".")[0] for name in before if not torch.equal(before[name], tree["model"][name])}
    assert moved == ({"projection"} if mode == "frozen" else {"projection", "backbone"})
    assert not any(
        "running" in name and not torch.equal(before[name], tree["model"][name]) for name in before
    )
    if mode == "partial":
        stem = load_model(tmp_path / "start")[0].frozen_part(1)
        cut = {id(p) for p in stem.parameters()}
        model = load_model(tmp_path / "start")[0]
        assert cut  # the first stage has weights, and none of them moved:
        names = [n for n, _ in model.named_parameters() if n.startswith(("backbone.conv1", "backbone.bn1"))]
        assert names
        assert all(torch.equal(before[n], tree["model"][n]) for n in names)


def test_the_result_is_never_worse_on_validation_than_the_start(squares, tmp_path):
    harmful = toy("frozen", "train.head_lr=30.0", "train.proxy_lr=30.0", "model.finish=none")
    result = fit(squares, tmp_path / "run", harmful).result
    assert result["validation"]["map_at_r"] >= result["start"]["map_at_r"]
    if result["selected"]["what"] == "start":
        assert result["test"]["map_at_r"] == result["test_start"]["map_at_r"]


def test_a_loss_that_is_not_finite_stops_with_the_images(squares, tmp_path, monkeypatch):
    from lookalike.losses import ProxyAnchor

    monkeypatch.setattr(ProxyAnchor, "forward", lambda self, e, y: e.sum() * float("nan"))
    with pytest.raises(TrainingError, match=r"epoch 1, step 1 .*png"):
        fit(squares, tmp_path / "run", toy("frozen"))
    assert load_model(tmp_path / "run")


@pytest.mark.parametrize("mode", MODES)
def test_embeddings_that_are_not_finite_stop_with_their_image(mode, squares, tmp_path, monkeypatch):
    def spoil(self, batch, embed=TrainablePart.embed):
        embeddings = embed(self, batch)
        return (
            embeddings.index_fill(0, torch.tensor([2]), torch.nan) if self.embedder.training else embeddings
        )

    monkeypatch.setattr(TrainablePart, "embed", spoil)
    with pytest.raises(
        TrainingError, match=r"embeddings are not finite in epoch 1, step 1 .*images: \S+png$"
    ):
        fit(squares, tmp_path / "run", toy(mode))
    assert load_model(tmp_path / "run")


@pytest.mark.parametrize("mode", MODES)
def test_the_saved_model_is_the_one_that_was_measured(mode, squares, tmp_path):
    done = fit(squares, tmp_path / "run", toy(mode))
    model, config = load_model(tmp_path / "run")
    assert config["fingerprint"] == done.result["model_fingerprint"]
    np.testing.assert_allclose(embed(model, done.test, workers=0).matrix, done.final, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("later", MODES)
def test_each_mode_continues_from_anothers_result(later, squares, tmp_path):
    first = fit(squares, tmp_path / "first", toy("frozen"))
    second = fit(squares, tmp_path / "second", toy(later), start_from=tmp_path / "first")
    assert second.result["start"]["map_at_r"] == pytest.approx(
        first.result["validation"]["map_at_r"], abs=0.02
    )


def test_the_network_of_a_run_that_continues_is_the_earlier_ones_in_its_experiment_too(squares, tmp_path):
    fit(squares, tmp_path / "first", toy("frozen", "model.pooling=average", "model.start=pca"))
    fit(squares, tmp_path / "second", toy("frozen"), start_from=tmp_path / "first")
    experiment = load_experiment(tmp_path / "second" / "experiment.yaml")
    assert (experiment.model.pooling, experiment.model.start) == ("average", "pca")
    for asked in ("maximum", "concat"):  # the default counts too, when somebody asks for it
        settings = toy("frozen", f"model.pooling={asked}")
        with pytest.raises(ArgumentError, match=rf"model\.pooling is {asked}, but the run .* has average"):
            fit(squares, tmp_path / "third", settings, start_from=tmp_path / "first")
    assert not (tmp_path / "third").exists()


def test_resuming_with_other_data_is_refused(squares, tmp_path):
    fit(squares, tmp_path / "run", toy("frozen"))
    with pytest.raises(FileError, match="other data"):
        fit(squares.of_classes(range(12)), tmp_path / "run", resume=True)


def test_a_folder_in_use_is_not_touched(squares, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(FileError, match="other files"):
        fit(squares, tmp_path / "mine", toy("frozen"), overwrite=True)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_activations_are_computed_once(squares, tmp_path, own_cache):
    fit(squares, tmp_path / "a", toy("partial"))
    files = {file: file.stat().st_mtime_ns for file in own_cache.rglob("*.npy")}
    fit(squares, tmp_path / "b", toy("partial", "loss.name=proxy_nca_pp", "seed=0"))
    assert {file: file.stat().st_mtime_ns for file in own_cache.rglob("*.npy")} == files
    fit(squares, tmp_path / "c", toy("partial", "data.image_size=48", "data.resize=48"))
    assert len(list(own_cache.rglob("*.npy"))) == 2 * len(files) == 4  # two views each


def test_a_view_is_made_in_the_epoch_that_first_draws_from_it(squares, tmp_path, own_cache):
    for number, epochs in enumerate((1, 2, 3, 4)):
        settings = toy("partial", "train.cached_views=3", f"train.epochs={epochs}", "model.views=1")
        fit(squares, tmp_path / str(number), settings)
        assert len(list(own_cache.rglob("*.npy"))) == min(max(epochs, 2), 3)  # the first two share a decode


def test_poolings_of_one_network_share_a_pass_over_the_images(squares, tmp_path, own_cache):
    said = []
    for pooling in ("average", "concat", "k_max"):
        progress = Told()
        settings = toy("frozen", f"model.pooling={pooling}", "model.views=1")
        fit(squares, tmp_path / pooling, settings, options=RunOptions(progress=progress))
        said.append([phase for phase in progress.phases if phase.startswith("embedding images")])
    assert [len(phases) for phases in said] == [2, 0, 2]  # the images that fit, and the test images


class Told(Progress):
    """Remembers the phases, and what is said."""

    def __init__(self):
        self.phases, self.said = [], []

    def say(self, text):
        self.said.append(text)

    def phase(self, name, total):
        self.phases.append(name)
        return super().phase(name, total)


@pytest.mark.parametrize(
    ("mode", "workers", "who"),
    [
        ("frozen", "null", "the training process"),  # on a CPU
        ("partial", "1", "1 worker process"),
        ("finetune", "0", "the training process"),
        ("finetune", "2", "2 worker processes"),
    ],
)
def test_it_is_said_who_decodes(mode, workers, who, squares, tmp_path):
    progress = Told()
    settings = toy(mode, f"data.workers={workers}", "train.epochs=0")
    fit(squares, tmp_path / "run", settings, options=RunOptions(progress=progress))
    assert progress.said[0].endswith(f"; images decoded by {who}")


def test_refit_uses_all_but_the_test_classes(squares, tmp_path):
    fit(squares, tmp_path / "run", toy("frozen", "train.refit=true", "train.patience=9"))
    folder = RunDir(tmp_path / "run")
    result = folder.read_json("result.json")
    if result["selected"]["refit"]:
        proxies = load_tree(folder.path / "training_state" / "refit")["loss"]["proxies"]
        classes = result["data"]["classes"]
        assert len(proxies) == classes["train"] + classes["validation"]
        lines = [json.loads(line) for line in (folder.path / "log.jsonl").read_text().splitlines()]
        assert max(r["epoch"] for r in lines if r["stage"] == "refit") == result["selected"]["epoch"]


@pytest.mark.parametrize(
    "loss", ["proxy_gml", "soft_triple", "hierarchical", "horde", "multi_similarity", "margin"]
)
def test_other_losses_train_in_the_same_loop(loss, squares, tmp_path):
    mode = "finetune" if loss == "horde" else "frozen"
    arguments = {"hierarchical": ["loss.coarse=[3]", "loss.update_every=2"]}.get(loss, [])
    done = fit(squares, tmp_path / "run", toy(mode, f"loss.name={loss}", "train.epochs=1", *arguments))
    assert np.isfinite(done.final).all()
    assert (tmp_path / "run" / "tree.json").exists() == (loss == "hierarchical")


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd", "rmsprop"])
def test_every_optimizer_moves_proxies_and_head(optimizer, squares, tmp_path):
    settings = toy(
        "frozen",
        f"train.optimizer={optimizer}",
        "train.epochs=1",
        "train.clip_value=10",
        "train.accumulate=2",
    )
    fit(squares, tmp_path / "run", settings)
    start = load_tree(tmp_path / "run" / "training_state" / "select")
    assert start["history"][1]["loss"] > 0
    assert start["optimizers"][0]["param_groups"][-1]["name"] == "proxies"


@pytest.mark.parametrize(
    "given", [{"overwrite": True}, {"experiment": Experiment()}, {"start_from": "elsewhere"}], ids=str
)
def test_a_resumed_run_takes_no_settings(given, squares, tmp_path):
    with pytest.raises(ArgumentError, match="resume continues a run with its own settings"):
        fit(squares, tmp_path / "run", resume=True, **given)
