"""Builds result.json and the console lines of a run."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from lookalike.config.defaults import input_size
from lookalike.data.dataloader import decoding_workers, embedding_workers
from lookalike.evaluation import Interval
from lookalike.models.backbones import describe
from lookalike.models.checkpoint import fingerprint
from lookalike.models.embedder import Embedder
from lookalike.training.advice import RunFacts, in_words, of_100
from lookalike.training.context import RunContext
from lookalike.training.setup import median_short_side
from lookalike.training.state import TrainingState


@dataclass(frozen=True)
class SelectionResult:
    """What validation chose ("start", "trained" or "finished"), and the metrics of each candidate.

    `finish_gain` is what the whitened finish adds to the metric, query by query; None without a finish.
    """

    what: str
    epoch: int
    epochs: int
    candidates: dict[str, dict[str, float]]
    finish_gain: Interval | None = None
    drops: tuple[int, ...] = ()


def build_result(context: RunContext, choice: SelectionResult, embedder: Embedder) -> dict[str, Any]:
    """The content of result.json, but for the test metrics."""
    metric, split = context.experiment.train.metric, context.split
    on_test = bool(set(split.validation.paths) & set(split.test.paths))
    by = f"{metric} of {split.validation.num_classes} {'test' if on_test else 'validation'} classes"
    return {
        "start": choice.candidates["start"],
        "validation": choice.candidates[choice.what],
        "candidates": choice.candidates,
        "selected": {
            "what": choice.what,
            "epoch": choice.epoch if choice.what != "start" else 0,
            "epochs_trained": choice.epochs,
            "by": by,
            "refit": context.experiment.train.refit and choice.what != "start",
            "drops": list(choice.drops),
            "finish_gain": None if choice.finish_gain is None else asdict(choice.finish_gain),
            "test_used_to_select": on_test,
        },
        "data": context.run_dir.read_json("data.json"),
        "mode": context.mode,
        "views": embedder.config.views,
        "loss": context.experiment.loss.name,
        "model_fingerprint": fingerprint(embedder),
        "seed": context.experiment.seed,
        "seconds": context.clock.seconds(),
    }


def describe_result(context: RunContext, result: dict[str, Any]) -> list[str]:
    """What the result of a tested run means, and what to do next, in sentences."""
    chosen, split = result["selected"], context.split
    if result["test"]["counts"]["scored"] == 0:
        return ["No test image has another image of its class, so there is nothing to measure."]
    facts = describe(context.experiment.model.backbone)
    good, *rest = in_words(
        RunFacts(
            mode=context.mode,
            recall_at_1=result["test"]["recall_at_1"],
            start_recall_at_1=result["test_start"]["recall_at_1"],
            epochs=chosen["epochs_trained"],
            best_epoch=chosen["epoch"],
            classes=split.train.num_classes,
            images=len(split.train),
            image_size=context.experiment.data.image_size or 0,
            largest_size=input_size(
                median_short_side(split.trainval), facts.preprocessing.size, facts.patch, gpu=True
            ),
        )
    )
    return [good, *without_known_images(result), *rest]


KNOWN = {
    "test_copies": "are copies of training or validation images",
    "test_trained_on": "were trained on by the run that this one started from",
}


def without_known_images(result: dict[str, Any]) -> list[str]:
    """What the score is without test images that were not new."""
    sentences = []
    for key, why in KNOWN.items():
        if found := result.get(key):
            without = found["test_without"]
            score = f"it is {of_100(without['recall_at_1'])} of 100" if without else "nothing can be measured"
            sentences.append(f"{found['images']:,} test images {why}: without them {score}.")
    return sentences


def describe_plan(context: RunContext) -> str:
    """Data, network and learning rates of the run that is about to start, in three lines."""
    experiment, split = context.experiment, context.split
    train = experiment.train
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    counts = ", ".join(
        f"{name} {part.num_classes} classes / {len(part)} images" for name, part in parts.items()
    )
    warm = f", the first {train.warmup_epochs} with the backbone frozen" if train.warmup_epochs else ""
    source = "named by the data" if split.source == "named" else "held out"
    source += f"; {split.unused}" if split.unused else ""
    return (
        f"{split.trainval.name}: {counts} (test classes {source})\n"
        f"{context.mode}: {experiment.model.backbone} at {experiment.data.image_size} px on {context.fabric.device}, "
        f"{experiment.model.embedding_dim}-d, loss {experiment.loss.name}, "
        f"up to {train.epochs} epochs{warm}\n"
        f"learning rates: backbone {train.lr if context.mode != 'frozen' else 0}, head {train.head_lr}, "
        f"proxies {train.proxy_lr}; chosen by validation {train.metric}; images decoded by {_decoders(context)}"
    )


def _decoders(context: RunContext) -> str:
    asked = context.experiment.data.workers
    embeds = context.mode != "finetune"
    workers = embedding_workers(asked, context.fabric.device) if embeds else decoding_workers(asked)
    if workers == 0:
        return "the training process"
    return "1 worker process" if workers == 1 else f"{workers} worker processes"


def epoch_line(state: TrainingState, metric: str) -> str:
    """Loss and validation metrics of the last epoch."""
    record = state.history[-1]
    scores = record["validation"]
    loss = "untrained" if record["loss"] is None else f"loss {record['loss']:.3f}"
    best = "  best" if state.best_epoch == state.epoch else ""
    return (
        f"epoch {state.epoch:>3}: {loss}, validation recall_at_1 {100 * scores['recall_at_1']:.1f}, "
        f"{metric} {100 * scores[metric]:.1f}{best}"
    )


def describe_gain(gain: Interval) -> str:
    """The ends of a gain in percent; its mean where a single class gives no interval."""
    if math.isnan(gain.low):
        return f"{100 * gain.mean:+.1f}"
    return f"{100 * gain.low:+.1f} to {100 * gain.high:+.1f}"


def choice_line(
    best: str,
    epoch: int,
    candidates: dict[str, dict[str, float]],
    metric: str,
    finish_gain: Interval | None,
    *,
    epochs: int,
) -> str:
    """What validation chose, and the metric of each candidate, after training for `epochs`."""
    scores = ", ".join(f"{name} {100 * values[metric]:.1f}" for name, values in candidates.items())
    if finish_gain is not None:
        scores += f" (the finish changes it by {describe_gain(finish_gain)})"
    words = {
        "start": "no gain over the untrained start is certain (95 % interval over validation classes), so it is kept"
        if epochs
        else "nothing was trained; the start is kept",
        "trained": f"epoch {epoch} is kept",
        "finished": f"epoch {epoch} with the whitened finish is kept",
    }
    return f"validation {metric}: {scores}; {words[best]}"
