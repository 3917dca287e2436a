"""Chooses settings that fit into a number of minutes, from seconds per image and the number of images.

Settings form a ladder from quick to good: nothing trained, then small images for few epochs, then larger ones. The plan
is the last rung whose estimate fits, with as many epochs more as fit. That larger images and more epochs are better is
measured (docs/explanation/what_was_tried.md). Everything here is arithmetic; `costs` measures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lookalike.config.defaults import input_size
from lookalike.config.schema import Mode

HEADROOM = 0.95
"""The share of the budget that an estimate may use; starting and writing files take the rest."""


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
        decode: reading, decoding and resizing one image.
        frozen: the first stages of one image; nothing in mode finetune, everything in mode frozen.
        forward: the other stages of one image.
        step: the other stages of one image, forward and backward, with its share of the optimizer.
        closed_form: one whitened projection, seconds in all.
    """

    decode: float
    frozen: PerImage
    forward: PerImage
    step: PerImage
    closed_form: float


@dataclass(frozen=True)
class Counts:
    """Images of each part."""

    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class Rung:
    """Settings that a budget decides; `epochs` 0 trains nothing."""

    mode: Mode
    image_size: int
    epochs: int


@dataclass(frozen=True)
class Plan:
    """A rung with its estimated seconds by phase."""

    rung: Rung
    seconds: dict[str, float]

    @property
    def minutes(self) -> float:
        """The estimate in all."""
        return sum(self.seconds.values()) / 60


def ladder(mode: Mode, *, epochs: int, backbone_size: int, short_side: int, patch: int = 1) -> list[Rung]:
    """The rungs of a mode from quick to good, by the size of the images.

    A network does best near the size that it was trained at, and enlarging images more than twice gains nothing.

    Args:
        epochs: of a run without a budget.
        patch: sizes are multiples of it, and of 16 where it divides 16.
    """
    most = input_size(short_side, backbone_size, patch, gpu=True)
    shares = [share / 14 for share in range(8, 15)]
    sizes = sorted({min(most, _rounded(backbone_size * share, patch)) for share in shares})
    untrained = [Rung("frozen", size, 0) for size in sizes]
    if mode == "frozen":
        return untrained
    few, usual, _ = (round(share * epochs) for share in EPOCHS[mode])
    trained = [Rung(mode, size, few) for size in sizes[:-1]]
    trained += [Rung(mode, size, usual) for size in sizes[-2:]]
    return untrained + list(dict.fromkeys(trained))


EPOCHS: dict[Mode, tuple[float, float, float]] = {"partial": (1, 1, 4), "finetune": (0.2, 0.4, 1)}
"""Shares of the usual epochs: the fewest for small images and for large ones, and the most; less than four epochs leave
the loss far from its end."""


def most_epochs(mode: Mode, epochs: int) -> int:
    """The most epochs that a plan has, of a mode that trains for `epochs` without a budget."""
    return 0 if mode == "frozen" else round(EPOCHS[mode][-1] * epochs)


def _rounded(side: float, patch: int) -> int:
    grid = 16 if 16 % patch == 0 else patch
    return max(grid, round(side / grid) * grid)


def estimate(rung: Rung, costs: Costs, counts: Counts, *, views: int = 2) -> dict[str, float]:
    """Seconds of each phase of a run.

    Args:
        views: how many views of an image an embedding averages.
    """
    size, known = rung.image_size, counts.train + counts.validation
    forward, cached = costs.forward(size), costs.frozen(size)
    once_more = costs.decode if rung.mode == "finetune" else 0.0  # nothing is cached: each pass decodes
    passes = once_more + views * forward
    if rung.mode == "frozen":
        cached, passes = cached + forward, 0.0
    phases = {
        "caching": 0.0 if rung.mode == "finetune" else known * (costs.decode + views * cached),
        "start": counts.train * passes + counts.validation * passes + 2 * costs.closed_form,
        "training": rung.epochs * counts.train * (once_more + costs.step(size)),
        "validation": rung.epochs * counts.validation * passes,
        "finish": (counts.train + counts.validation) * passes + costs.closed_form if rung.epochs else 0.0,
        "test": counts.test * (costs.decode + views * (costs.frozen(size) + 2 * forward)),
    }
    return {phase: seconds for phase, seconds in phases.items() if seconds > 0}


def plan_run(
    rungs: Sequence[Rung], costs: Costs, counts: Counts, *, minutes: float, most: int = 0, views: int = 2
) -> Plan:
    """The last rung whose estimate fits into `minutes`, then more epochs; the quickest of all where none fits.

    Args:
        most: epochs, if a rung trains at all; 0 for those of the rung.
    """

    def planned(rung: Rung) -> Plan:
        return Plan(rung, estimate(rung, costs, counts, views=views))

    def last_that_fits(plans: Sequence[Plan]) -> Plan | None:
        return next((plan for plan in reversed(plans) if plan.minutes <= HEADROOM * minutes), None)

    plans = [planned(rung) for rung in rungs]
    chosen = last_that_fits(plans)
    if chosen is None:
        return min(plans, key=lambda plan: plan.minutes)
    more = range(chosen.rung.epochs, most + 1) if chosen.rung.epochs else ()
    return last_that_fits([planned(replace(chosen.rung, epochs=epochs)) for epochs in more]) or chosen


def plan_lines(plan: Plan, doubled: Plan, *, minutes: float) -> str:
    """The plan for people: settings, minutes of each phase, and what twice the time would change."""
    lines = [f"plan for {minutes:g} minutes: {_settings(plan.rung)}; {duration(plan)}"]
    if plan.minutes > minutes:
        lines.append(
            f"even the quickest settings take about {plan.minutes:.1f} minutes here; give more, or fewer images"
        )
    if doubled.rung == plan.rung:
        lines.append("twice the time would change nothing")
    else:
        lines.append(f"twice the time: {_settings(doubled.rung)}; about {doubled.minutes:.1f} minutes")
    return "\n".join(lines)


def duration(plan: Plan) -> str:
    """The estimated minutes in all and of each phase."""
    phases = ", ".join(f"{phase} {seconds / 60:.1f}" for phase, seconds in plan.seconds.items())
    return f"about {plan.minutes:.1f} minutes ({phases})"


def _settings(rung: Rung) -> str:
    what = f"mode {rung.mode} at {rung.image_size} px"
    return f"{what}, {rung.epochs} epochs" if rung.epochs else f"{what}, nothing trained"
