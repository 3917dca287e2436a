"""Turns the failure of a training step into a `TrainingError` with epoch, step, images and remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lookalike.config.schema import TrainSettings
from lookalike.errors import NotFiniteError, TrainingError, first_line, is_out_of_memory
from lookalike.training.inputs import Inputs
from lookalike.utils.distributed import Processes

NAMED = 5  # images of a batch that a message names
KEPT = "the best epoch so far is saved"


@dataclass(frozen=True)
class StepInfo:
    """Where training is: epoch and step, counted from 1, and the rows of the batch."""

    epoch: int
    step: int
    rate_factor: float
    inputs: Inputs
    rows: list[int]

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"


@contextmanager
def training_errors(where: StepInfo, settings: TrainSettings) -> Iterator[None]:
    """Adds place and remedy to the failures of a step.

    Raises:
        TrainingError: embeddings or the loss are not finite, or memory does not suffice.
    """
    try:
        yield
    except NotFiniteError as error:
        raise _not_finite(error, where, settings) from error
    except (MemoryError, RuntimeError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise _out_of_memory(error, where, settings) from error


def _not_finite(error: NotFiniteError, where: StepInfo, settings: TrainSettings) -> TrainingError:
    what = str(error).partition(" not finite")[0]
    images = [where.inputs.table.paths[row] for row in where.rows]
    if error.samples and Processes.all().size == 1:  # else they are counted over the batches of all processes
        images = [images[sample] for sample in error.samples]
    remedy = " or set train.clip_norm=1" if settings.clip_norm is None else ""
    named = ", ".join(images[:NAMED]) + (" ..." if len(images) > NAMED else "")
    return TrainingError(
        f"{what} not finite in {where} (learning rates: backbone {settings.lr}, head {settings.head_lr}, proxies "
        f"{settings.proxy_lr}, times {where.rate_factor:g} by the schedule); "
        f"lower the learning rates{remedy}; {KEPT}; images: {named}"
    )


def _out_of_memory(error: BaseException, where: StepInfo, settings: TrainSettings) -> TrainingError:
    return TrainingError(
        f"out of memory in {where}, a batch of {len(where.rows)} images ({first_line(error)}); halve the batch "
        f"(batch.size, or batch.classes of the balanced sampler) and set train.accumulate={2 * settings.accumulate}, "
        f"use smaller images (data.image_size), or train less of the network (train.mode=partial); {KEPT}"
    )
