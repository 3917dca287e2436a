"""What can go wrong in a training step, told with its place and its images."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lookalike.config.schema import TrainSettings
from lookalike.errors import NotFiniteError, TrainingError, first_line, is_out_of_memory
from lookalike.training.inputs import Inputs
from lookalike.utils.distributed import Processes

NAMED = 5  # images of a batch that a message names


@dataclass(frozen=True)
class StepInfo:
    """Where training is: a step, counted from 1 as epochs are, and the rows of its batch in the table."""

    epoch: int
    step: int
    rate_factor: float
    inputs: Inputs
    rows: list[int]

    def __str__(self) -> str:
        return f"epoch {self.epoch}, step {self.step}"


@contextmanager
def training_errors(place: StepInfo, settings: TrainSettings) -> Iterator[None]:
    """Turns what a step may fail with into a `TrainingError` that says where, and what to do.

    Raises:
        TrainingError: embeddings or the loss are not finite, or memory does not suffice.
    """
    try:
        yield
    except NotFiniteError as error:
        raise _not_finite(error, place, settings) from error
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise _out_of_memory(error, place) from error


def _not_finite(error: NotFiniteError, place: StepInfo, settings: TrainSettings) -> TrainingError:
    what, images = "embeddings are" if error.samples else "the loss is", place.inputs.names(place.rows)
    if error.samples and Processes.all().size == 1:  # else they are counted over the batches of all processes
        images = [images[sample] for sample in error.samples]
    named = ", ".join(images[:NAMED]) + (" ..." if len(images) > NAMED else "")
    return TrainingError(
        f"{what} not finite in {place} (rate factor {place.rate_factor:g}, "
        f"backbone {settings.lr}, head {settings.head_lr}, proxies {settings.proxy_lr}); "
        f"lower the rates or set train.clip_norm; the last good epoch is kept; images: {named}"
    )


def _out_of_memory(error: BaseException, place: StepInfo) -> TrainingError:
    return TrainingError(
        f"out of memory in {place}, a batch of {len(place.rows)} images ({first_line(error)}); take half as "
        "many with train.accumulate=2, smaller images (data.image_size), or train less of the network "
        "(train.mode=partial); the last good epoch is kept"
    )
