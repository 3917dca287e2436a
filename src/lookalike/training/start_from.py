"""Training that starts from another run's model: classes that this model has seen, and proxies that it keeps.

The data may be other data, with new classes or without some. Classes that the earlier run trained on, or chose by,
are not held out for the test again; where the data itself names them as test classes, they are refused, or accepted
and marked in the result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lookalike.config.experiment import Experiment
from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import Split
from lookalike.errors import DataError
from lookalike.losses import MetricLoss
from lookalike.losses.functional import unit_rows
from lookalike.losses.sharded import Sharded
from lookalike.models.checkpoint import load_model
from lookalike.training.context import RunContext
from lookalike.training.data_facts import trained_images
from lookalike.training.run_dir import RunDir
from lookalike.training.tensor_tree import load_tree, save_tree

CLASSES, PROXIES = "classes.json", "proxies"


@dataclass(frozen=True)
class SeenClasses:
    """Names of classes that a model has seen.

    Attributes:
        trained: what it, or a run before it, was trained on.
        selected: the validation classes, which chose among its candidates.
    """

    trained: frozenset[str] = frozenset()
    selected: frozenset[str] = frozenset()

    @property
    def any(self) -> frozenset[str]:
        """Trained on, or chosen by."""
        return self.trained | self.selected

    def to_dict(self) -> dict[str, list[str]]:
        """Plain values for JSON."""
        return {"trained": sorted(self.trained), "selected": sorted(self.selected)}


def seen_before(run_dir: RunDir) -> SeenClasses:
    """The classes that the model which the run started from had seen; none for a run from scratch."""
    if not (run_dir.path / CLASSES).exists():
        return SeenClasses()
    return _parse(run_dir.read_json(CLASSES)["before"])


def seen_by(run_dir: RunDir) -> SeenClasses:
    """The classes that a run's model has seen; all that it names, for a run that kept no list.

    Raises:
        FileError: no run there.
    """
    if (run_dir.path / CLASSES).exists():
        return _parse(run_dir.read_json(CLASSES)["after"])
    _, config = load_model(run_dir.path)
    return SeenClasses(frozenset(config["class_names"]))


def save_seen(run_dir: RunDir, split: Split, before: SeenClasses, *, refit: bool) -> None:
    """Writes which classes the run trains on and chooses by, with those of the runs before it."""
    train, validation = frozenset(split.train.class_names), frozenset(split.validation.class_names)
    after = SeenClasses(
        before.trained | train | (validation if refit else frozenset()), before.selected | validation
    )
    run_dir.write_json(CLASSES, {"before": before.to_dict(), "after": after.to_dict()})


def split_after(
    experiment: Experiment, table: LabeledImages, before: SeenClasses, *, test_on_trained: bool = False
) -> Split:
    """The split of `experiment`, with test and validation classes held out among those that are new to the model.

    Args:
        test_on_trained: hold out test classes as if the model were untrained.
    """
    return experiment.split(
        table, not_test=() if test_on_trained else before.any, not_validation=before.trained
    )


def own_split(run_dir: RunDir, table: LabeledImages) -> Split | None:
    """How the run split `table`, if it is the data that the run was trained on; None of other data.

    Raises:
        DataError: a protocol split it in a way that settings do not say.
    """
    facts = run_dir.read_json("data.json")
    if table.digest() != facts["digest"]:
        return None
    split = split_after(
        run_dir.experiment(),
        table,
        seen_before(run_dir),
        test_on_trained=facts.get("test_on_trained", False),
    )
    if split.digest() != facts["split_digest"]:
        raise DataError(
            f"the run '{run_dir.path}' was split in another way, by a protocol ({facts['split_source']}): its numbers "
            "are in its result.json, and another split might test on what it was trained on; give other data"
        )
    return split


@dataclass(frozen=True)
class SeenTest:
    """Test classes and test images that the model has seen before."""

    classes: tuple[str, ...] = ()
    images: tuple[str, ...] = ()

    def paths(self, test: LabeledImages) -> set[str]:
        """All test images that are of such classes, or were trained on themselves."""
        names = set(self.classes)
        of_classes = {
            path
            for path, label in zip(test.paths, test.labels.tolist(), strict=True)
            if test.class_names[label] in names
        }
        return of_classes | set(self.images)


def check_unseen(
    start_from: Path, source: str, split: Split, before: SeenClasses, *, test_on_trained: bool
) -> SeenTest:
    """Refuses test classes and images that the earlier run has seen; with `test_on_trained` returns them.

    Args:
        source: where the data lies; images are compared only where it is that of the earlier run.

    Raises:
        DataError: there are some.
    """
    test = split.test
    classes = tuple(name for name in test.class_names if name in before.any)
    images = trained_images(RunDir(start_from), source, test.paths)
    if test_on_trained or not (classes or images):
        return SeenTest(classes, images)
    what = (
        f"{len(classes)} of the {test.num_classes} test classes, such as '{classes[0]}'"
        if classes
        else f"{len(images)} of the {len(test)} test images, such as {images[0]}"
    )
    raise DataError(
        f"the run '{start_from}', which training starts from, was trained on {what}; scores of them would not be "
        "those of unseen classes; give other test classes, or accept it with --test-on-trained, which the result marks"
    )


def describe_start(start_from: Path, split: Split, before: SeenClasses) -> str:
    """Which classes are known to the model."""
    names = split.train.class_names
    known = sum(name in before.trained for name in names)
    return (
        f"starts from {start_from}, whose model was trained on {known} of these {len(names)} training classes"
    )


def seen_warnings(split: Split, before: SeenClasses, seen: SeenTest) -> list[str]:
    """What the model has seen of the classes that measure it."""
    lines = []
    chosen_by = sum(name in before.trained for name in split.validation.class_names)
    if chosen_by:
        lines.append(
            f"the model was trained on {chosen_by} of the {split.validation.num_classes} validation classes, "
            "so their scores are too high and choose less well between epochs"
        )
    if seen.classes or seen.images:
        lines.append(
            f"the model was trained on {len(seen.classes)} of the {split.test.num_classes} test classes, so "
            "scores are too high; result.json names these classes and has the scores without them"
        )
    return lines


def save_proxies(
    context: RunContext, class_names: tuple[str, ...], proxies: Tensor, *, per_class: int
) -> None:
    """Writes the proxies (C * per_class, D) of the classes that the saved model was trained on."""
    if context.is_main_process:
        tree = {"class_names": list(class_names), "per_class": per_class, "proxies": proxies}
        save_tree(context.run_dir.state_path(PROXIES), tree)


def save_loss_proxies(context: RunContext, class_names: tuple[str, ...], loss: MetricLoss) -> None:
    """Writes the proxies of a loss; not those that are sharded over processes."""
    proxies = None if isinstance(loss, Sharded) else loss.proxy_loss
    if proxies is not None:
        save_proxies(context, class_names, proxies.proxies, per_class=proxies.proxies_per_class)


def class_means(embeddings_ND: Tensor, labels_N: Tensor, classes: int) -> Tensor:
    """Unit means (C, D) of the unit embeddings of each class."""
    sums_CD = embeddings_ND.new_zeros(classes, embeddings_ND.shape[1])
    return unit_rows(sums_CD.index_add(0, labels_N, unit_rows(embeddings_ND)))


@torch.no_grad()
def keep_proxies(context: RunContext, class_names: tuple[str, ...], loss: MetricLoss) -> None:
    """Sets the proxies of the classes that the earlier run trained on to those that it ended with."""
    assert context.start_from is not None
    path = RunDir(context.start_from).state_path(PROXIES)
    held = None if isinstance(loss, Sharded) else loss.proxy_loss
    if held is None or not path.with_suffix(".json").exists():
        return
    tree = load_tree(path)
    earlier, count = tree["proxies"], held.proxies_per_class
    if tree["per_class"] != count or earlier.shape[1] != loss.embedding_dim:
        return
    row_of = {name: row for row, name in enumerate(tree["class_names"])}
    known = [(number, row_of[name]) for number, name in enumerate(class_names) if name in row_of]
    for number, row in known:
        held.proxies[number * count : (number + 1) * count] = earlier[row * count : (row + 1) * count]
    context.progress.say(
        f"the proxies of {len(known)} of {len(class_names)} classes are those of {context.start_from}"
    )


def _parse(names: dict[str, Any]) -> SeenClasses:
    return SeenClasses(frozenset(names["trained"]), frozenset(names["selected"]))
