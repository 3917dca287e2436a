"""Chooses, on the validation classes, whether embeddings average an image with its mirror image.

Averaging an image with its mirror image doubles the time to embed, so it must gain: on the validation classes,
with the start's projection, by more than one standard error. It is never considered where `data.flip` says that a
mirrored image shows something else.
"""

from torch import Tensor

from lookalike.evaluation import Interval, paired_difference
from lookalike.models.views import mean_of_views
from lookalike.training.context import RunContext
from lookalike.training.embed_inputs import pooled_by_view
from lookalike.training.evaluate_run import score_in_run
from lookalike.training.inputs import Inputs
from lookalike.training.projection import init_start
from lookalike.training.summary import describe_gain
from lookalike.training.trainable import TrainablePart

ONE_STANDARD_ERROR = 0.683
"""How much of a normal distribution lies within one standard error."""


def choose_views(
    context: RunContext, trainable: TrainablePart, inputs: Inputs, held_inputs: Inputs
) -> Tensor:
    """Sets the embedder's views and the experiment's `model.views`; returns the pooled vectors of `inputs`.

    The projection is that of `trainable` where training continues from a run, and else left as the start of one view.
    """
    embedder, experiment = trainable.embedder, context.experiment
    views = experiment.model.views or (2 if experiment.data.flip else 1)
    pooled = pooled_by_view(context, trainable, inputs, views)
    if experiment.model.views is None and views == 2:
        held = pooled_by_view(context, trainable, held_inputs, views)
        if context.start_from is None:
            init_start(context, embedder, pooled[0], inputs.labels)
        one, both = (
            score_in_run(
                context,
                held_inputs.table,
                embedder.project(vectors.to(context.fabric.device)).detach().cpu().numpy(),
            )
            for vectors in (held[0], mean_of_views(held))
        )
        metric = experiment.train.metric
        columns = one.per_query[metric], both.per_query[metric]
        gain = paired_difference(metric, *columns, one.labels, confidence=ONE_STANDARD_ERROR).difference
        views = 2 if gain.low > 0 else 1
        context.progress.say(views_line(metric, views, gain))
    embedder.set_views(views)
    if context.is_main_process:  # a resumed run, or one with the same settings, does not choose again
        context.run_dir.save_experiment(experiment.override([f"model.views={views}"]))
    return mean_of_views(pooled[:views])


def views_line(metric: str, views: int, gain: Interval) -> str:
    """What was chosen and why."""
    words = {
        1: "embeddings are of the image alone",
        2: "embeddings average both, which takes twice the time (not with `lookalike embed --views 1`)",
    }
    return (
        f"averaging each image with its mirror image changes validation {metric} by {describe_gain(gain)} before "
        f"training: {words[views]}"
    )
