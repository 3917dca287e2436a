"""bfloat16 is chosen where it is measured to be faster, once per machine; everything embeds in what was measured."""

import numpy as np
import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.data.image_io import open_image
from lookalike.embedding import embed
from lookalike.models.checkpoint import load_model
from lookalike.models.fuse import fuse_for_inference
from lookalike.search.encoder import ImageEncoder
from lookalike.training import choose_precision as module
from lookalike.training.choose_precision import choose_precision
from lookalike.training.costs import Seconds
from lookalike.training.fit import fit
from lookalike.training.run_dir import RunDir
from lookalike.utils.progress import Progress
from toys import TOY_SETTINGS

MODES = ("frozen", "partial", "finetune")
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def native(monkeypatch):
    """A processor that has instructions for bfloat16."""
    for name in ("models.fuse", "training.choose_precision"):
        monkeypatch.setattr(f"lookalike.{name}.computes_bfloat16", lambda _: True)


def chosen(experiment, accelerator="cpu"):
    assignments = choose_precision(
        experiment, mode="partial", size=192, accelerator=accelerator, progress=Progress()
    )
    found = experiment.override(assignments)
    return found.model.precision, found.train.precision


def measured(monkeypatch, *, embedding, training):
    """As if bfloat16 were so many times as fast; returns the precisions that were measured."""
    calls = []

    def measure(_experiment, _mode, _size, precision):
        calls.append(precision)
        by = 1 if precision == "float32" else 0
        return Seconds(0.4 * embedding**by, 0.6 * embedding**by, 2.0 * training**by)

    monkeypatch.setattr(module, "measure_precision", measure)
    return calls


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(
    ("embedding", "training", "found"),
    [
        (1.9, 1.3, ("bfloat16", "bf16-mixed")),
        (1.9, 1.0, ("bfloat16", "32-true")),
        (1.1, 0.5, ("float32", "32-true")),
    ],
)
def test_what_is_faster_by_more_than_a_seventh_is_taken(embedding, training, found, monkeypatch):
    measured(monkeypatch, embedding=embedding, training=training)
    assert chosen(Experiment()) == found


@pytest.mark.usefixtures("native")
def test_what_somebody_chose_stays(monkeypatch):
    calls = measured(monkeypatch, embedding=1.9, training=1.9)
    assert chosen(Experiment().override(["model.precision=float32"])) == ("float32", "bf16-mixed")
    assert chosen(Experiment().override(["train.precision=32-true"])) == ("bfloat16", "32-true")
    calls.clear()
    both = Experiment().override(["train.precision=32-true", "model.precision=float32"])
    assert chosen(both) == ("float32", "32-true")
    assert calls == []


def test_other_devices_and_other_processors_are_not_measured(monkeypatch):
    calls = measured(monkeypatch, embedding=1.9, training=1.9)
    monkeypatch.setattr(module, "computes_bfloat16", lambda _: False)
    assert chosen(Experiment()) == (None, None)
    monkeypatch.setattr(module, "computes_bfloat16", lambda _: True)
    assert chosen(Experiment(), "cuda") == (None, None)
    assert calls == []


@pytest.mark.usefixtures("native")
def test_a_machine_is_measured_once_and_again_where_the_record_is_damaged(own_cache, monkeypatch):
    calls = measured(monkeypatch, embedding=1.9, training=1.3)
    first = chosen(Experiment())
    assert calls == ["float32", "bfloat16"]
    measured(monkeypatch, embedding=0.5, training=0.5)
    assert chosen(Experiment()) == first
    for file in (own_cache / "precision").iterdir():
        file.write_text('{"embedding": 9}', encoding="utf-8")
    assert chosen(Experiment()) == ("float32", "32-true")


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("mode", MODES)
def test_validation_test_and_later_embedding_compute_in_the_same_precision(mode, squares, tmp_path):
    settings = Experiment().override(
        [*TOY_SETTINGS, f"train.mode={mode}", "train.epochs=1", "model.precision=bfloat16"]
    )
    done = fit(squares, tmp_path / "run", settings)
    model, _ = load_model(tmp_path / "run")
    assert next(fuse_for_inference(model).backbone.parameters()).dtype == torch.bfloat16
    again = embed(model, done.test).matrix
    largest = np.abs(done.final).max()
    np.testing.assert_allclose(again, done.final, rtol=0, atol=1e-5 * largest)
    encoder = ImageEncoder.of(model, "cpu")
    tensors = [encoder.prepare(open_image(done.test.file(row))) for row in range(len(done.test))]
    np.testing.assert_allclose(encoder.encode(tensors), again, rtol=0, atol=1e-5 * largest)
    model.set_precision("float32")
    full = embed(model, done.test).matrix
    assert not np.array_equal(full, again)
    np.testing.assert_allclose(full, again, rtol=0, atol=3e-2 * largest)


@pytest.mark.usefixtures("native")
def test_a_run_of_many_images_measures_and_records_what_it_chose(squares, tmp_path, monkeypatch):
    measured(monkeypatch, embedding=1.9, training=1.3)
    settings = Experiment().override([*TOY_SETTINGS, "train.epochs=1", "train.mode=partial"])
    fit(squares, tmp_path / "few", settings)
    few = RunDir(tmp_path / "few").experiment()
    assert (few.model.precision, few.train.precision) == ("float32", "32-true")
    monkeypatch.setattr("lookalike.training.fit.WORTH_ESTIMATING", 1)
    fit(squares, tmp_path / "many", settings)
    many = RunDir(tmp_path / "many").experiment()
    assert (many.model.precision, many.train.precision) == ("bfloat16", "bf16-mixed")
    assert load_model(tmp_path / "many")[0].config.precision == "bfloat16"
