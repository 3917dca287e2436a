"""Chooses settings that fit into a number of minutes, from seconds per image and the number of images.

Candidates go from quick to good: only the projection trained, then small images for few epochs, then larger ones. The
plan is the last candidate whose estimate fits, with as many epochs more as fit. That larger images and more epochs are
better is measured (docs/explanation/what_was_tried.md). Everything here is arithmetic; `costs` measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookalike.config.defaults import MODE_DEFAULTS, input_size
from lookalike.config.schema import Mode


@dataclass(frozen=True)
class PerImage:
    """Seconds per image as a function of the input size: fixed + per_pixel * size * size."""

    fixed: float
    per_pixel: float

    def __call__(self, size: int) -> float:
        return self.fixed + self.per_pixel * size * size


def line_through(first: tuple[int, float], second: tuple[int, float]) -> PerImage:
    """The line through two measurements (size, seconds); neither part is below 0."""
    (size, seconds), (larger, more) = sorted((first, second))
    per_pixel = max(0.0, (more - seconds) / (larger**2 - size**2))
    return PerImage(max(0.0, seconds - per_pixel * size**2), per_pixel)


@dataclass(frozen=True)
class Costs:
    """Seconds measured on this machine.

    Attributes:
        decode: reading, decoding and resizing one image, with all decoding processes or threads at work.
        decodes_ahead: whether the next images are decoded while the network computes, as for a GPU.
        frozen: the first stages of one image; nothing in mode finetune, everything in mode frozen.
        forward: the other stages of one image.
        step: the other stages of one image, forward and backward, with its share of the optimizer.
        projection: the same of the projection alone, which is all that mode frozen trains.
        closed_form: one whitened projection, seconds in all.
    """

    decode: float
    frozen: PerImage
    forward: PerImage
    step: PerImage
    projection: float
    closed_form: float
    decodes_ahead: bool = False

    def decode_and(self, network: float) -> float:
        """Seconds of one image that is decoded and takes `network` seconds in the network."""
        return max(self.decode, network) if self.decodes_ahead else self.decode + network


@dataclass(frozen=True)
class Counts:
    """Images of each part."""

    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class Candidate:
    """Values of the settings that a budget decides; `epochs` 0 trains nothing."""

    mode: Mode
    image_size: int
    epochs: int


@dataclass(frozen=True)
class Plan:
    """A candidate with its estimated seconds by phase."""

    settings: Candidate
    seconds: dict[str, float]

    @property
    def minutes(self) -> float:
        """The estimate in all."""
        return sum(self.seconds.values()) / 60


def candidates(
    mode: Mode, *, epochs: int, backbone_size: int, short_side: int, patch: int = 1
) -> list[Candidate]:
    """The candidates of a mode from quick to good, by the size of the images.

    A network does best near the size that it was trained at, and enlarging images more than twice gains nothing.

    Args:
        epochs: of a run without a budget.
        patch: sizes are multiples of it, and of 16 where it divides 16.
    """
    most = input_size(short_side, backbone_size, patch, gpu=True)
    shares = [share / 14 for share in range(8, 15)]
    sizes = sorted({min(most, _rounded(backbone_size * share, patch)) for share in shares})
    frozen = [Candidate("frozen", size, MODE_DEFAULTS["frozen"]["epochs"]) for size in sizes]
    if mode == "frozen":
        return frozen
    few, usual, _ = (round(share * epochs) for share in EPOCHS[mode])
    trained = [Candidate(mode, size, few) for size in sizes[:-1]]
    trained += [Candidate(mode, size, usual) for size in sizes[-2:]]
    return frozen + list(dict.fromkeys(trained))


EPOCHS: dict[Mode, tuple[float, float, float]] = {"partial": (1, 1, 4), "finetune": (0.2, 0.4, 1)}
"""Shares of the usual epochs: the fewest for small images and for large ones, and the most; less than four epochs leave
the loss far from its end."""


def most_epochs(mode: Mode, epochs: int) -> int:
    """The most epochs that a plan has, of a mode that trains for `epochs` without a budget."""
    return 0 if mode == "frozen" else round(EPOCHS[mode][-1] * epochs)


def _rounded(side: float, patch: int) -> int:
    grid = 16 if 16 % patch == 0 else patch
    return max(grid, round(side / grid) * grid)


def estimate(settings: Candidate, costs: Costs, counts: Counts, *, views: int = 2) -> dict[str, float]:
    """Seconds of each phase of a run.

    Args:
        views: how many views of an image an embedding averages.
    """
    size, known = settings.image_size, counts.train + counts.validation
    forward, cached = costs.forward(size), costs.frozen(size)
    passes, step = views * forward, costs.step(size)
    if settings.mode == "finetune":  # nothing is cached: each pass decodes
        passes, step = costs.decode_and(passes), costs.decode_and(step)
    elif settings.mode == "frozen":
        cached, passes, step = cached + forward, 0.0, costs.projection
    phases = {
        "caching": 0.0 if settings.mode == "finetune" else known * costs.decode_and(views * cached),
        "start": known * passes + 2 * costs.closed_form,
        "training": settings.epochs * counts.train * step,
        "validation": settings.epochs * counts.validation * passes,
        "finish": known * passes + costs.closed_form if settings.epochs else 0.0,
        "test": counts.test * costs.decode_and(views * (costs.frozen(size) + 2 * forward)),
    }
    return {phase: seconds for phase, seconds in phases.items() if seconds > 0}


def plan_run(
    options: Sequence[Candidate],
    costs: Costs,
    counts: Counts,
    *,
    minutes: float,
    most: int = 0,
    views: int = 2,
) -> Plan:
    """The last candidate whose estimate fits into `minutes`, then more epochs; the quickest of all where none fits.

    Args:
        most: epochs, if a candidate trains stages of the network; 0 for those of the candidate.
    """

    def planned(settings: Candidate) -> Plan:
        return Plan(settings, estimate(settings, costs, counts, views=views))

    def last_that_fits(plans: Sequence[Plan]) -> Plan | None:
        return next((plan for plan in reversed(plans) if plan.minutes <= minutes), None)

    plans = [planned(settings) for settings in options]
    chosen = last_that_fits(plans)
    if chosen is None:
        return min(plans, key=lambda plan: plan.minutes)
    more = () if chosen.settings.mode == "frozen" else range(chosen.settings.epochs, most + 1)
    return last_that_fits([planned(replace(chosen.settings, epochs=epochs)) for epochs in more]) or chosen
