"""How good a result is and what to do next, in plain words: a pure function of a run's numbers."""

import math
from dataclasses import dataclass

from lookalike.config.schema import Mode

FEW_IMAGES = 10
FEW_CLASSES = 30
NEARLY_ALL = 0.95


@dataclass(frozen=True)
class RunFacts:
    """What the advice depends on; metrics from 0 to 1.

    Attributes:
        mode: `train.mode`.
        epochs: how many were trained.
        best_epoch: the one that was best on the validation classes; 0 where the start was.
        classes, images: of training.
        image_size, largest_size: the input's side, and the one beyond which nothing is gained; pixels.
    """

    mode: Mode
    recall_at_1: float
    start_recall_at_1: float
    epochs: int
    best_epoch: int
    classes: int
    images: int
    image_size: int
    largest_size: int


def in_words(facts: RunFacts) -> list[str]:
    """Two or three sentences: how often the nearest image is right, what training did, and what to do next."""
    return [_how_good(facts), *_what_training_did(facts), _what_next(facts)]


def of_100(share: float) -> int:
    """How many of 100 a share is, rounded down: 0.996 is not 100 of 100."""
    return math.floor(100 * share + 1e-9)


def _how_good(facts: RunFacts) -> str:
    now, before = of_100(facts.recall_at_1), of_100(facts.start_recall_at_1)
    change = f"; {before} before training" if facts.best_epoch else ""
    return (
        f"For {now} of 100 images of classes that training never saw, the most similar image shows the same class"
        f"{change}."
    )


def _what_training_did(facts: RunFacts) -> list[str]:
    if facts.epochs == 0:
        return []
    if facts.best_epoch == 0:
        return [
            "Training did not clearly beat the untrained start on the validation classes, so the start was kept."
        ]
    if _lowered(facts):
        return [
            f"Training lowered it, although the validation classes were best after epoch {facts.best_epoch} of "
            f"{facts.epochs}: too few of them, or too little to learn from."
        ]
    if _falls(facts):
        return [
            f"The validation classes were best after epoch {facts.best_epoch} of {facts.epochs} and got worse after it."
        ]
    return []


def _what_next(facts: RunFacts) -> str:
    per_class = facts.images / max(1, facts.classes)
    steps = []
    if _lowered(facts):
        steps.append(
            "use the model as it was before training (the same command with --set train.epochs=0 and another --out)"
        )
    if facts.recall_at_1 >= NEARLY_ALL:
        steps.append(
            "look at the remaining errors in the report, since some may be wrong labels or duplicate classes"
        )
    if facts.image_size < facts.largest_size:
        steps.append(f"show larger images (data.image_size={facts.largest_size})")
    if facts.mode == "frozen":
        steps.append("train the network, not only its projection (train.mode=partial, or more --minutes)")
    elif facts.epochs == 0:
        steps.append("train (train.epochs, or --minutes)")
    elif facts.best_epoch and not _falls(facts) and not _lowered(facts):
        steps.append("train for longer (--minutes, or train.epochs): the last epoch was the best")
    if facts.classes < FEW_CLASSES:
        steps.append(f"add classes: {facts.classes} teach little about classes never seen")
    if per_class < FEW_IMAGES:
        steps.append(f"add images per class: there are {per_class:.0f}")
    if not steps:
        steps.append("add classes and images like the ones that are confused in the report")
    return f"What is likely to help next, most first: {'; '.join(steps[:3])}."


def _lowered(facts: RunFacts) -> bool:
    """Whether the chosen weights are worse on the test classes than those before training, by a whole percent."""
    return facts.best_epoch > 0 and of_100(facts.recall_at_1) < of_100(facts.start_recall_at_1)


def _falls(facts: RunFacts) -> bool:
    """Whether epochs after the best one were trained, so that more of them would not help."""
    return facts.best_epoch < facts.epochs
