"""Time to quality: our loop beside a plain pytorch-metric-learning (PML) loop that learns from the same batches.

    python -m benchmarks.time_to_quality cars196.zip [--threads N] [--rounds 3] [--losses NAME ...]
        [--only frozen|partial] [--set data.image_size=128 ...] [--short]

The clock runs through training and validation until map_at_r of the validation classes first reaches a level
that all sides reach. All start from the same weights and proxies and get the same batches, optimizer, rates and
schedule; the run stops if the loss of the first step, map_at_r of the start or the order of the batches differ.

frozen   the features of a network that stays as it is are made once, for both. Ours: `train` on them. Plain: a
         TensorDataset and DataLoader, a linear layer, PML's loss, torch's AdamW, PML's AccuracyCalculator.
partial  the last stages of the network train. Ours: mode partial, the making of its cache included. Plain: images
         are decoded and run through the frozen first stages in every epoch. Plain, cached: the plain loop on
         a cache like ours, the making of it included, so that the loops alone differ.

All sides alternate in one process, which keeps freed memory as `lookalike` on the command line does, and decode
in it (no workers), so the CPU seconds are those of the whole work. Each embeds one view of an image. Ours also measures
every metric of `evaluate` and keeps the weights of the best epoch; the plain loop finds map_at_r and precision_at_1,
and keeps nothing.
"""

import argparse
import copy
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks import Seconds, clock
from benchmarks.curves import Curve, RecordedBatches, check, facts, level_table, median
from benchmarks.jobs import build_context
from benchmarks.plain_loop import PEERS, Start, train_frozen, train_partial
from lookalike.__main__ import _keep_freed_memory
from lookalike.data.dataset import LabeledImages
from lookalike.data.read import read
from lookalike.training.embed_inputs import embed_all
from lookalike.training.evaluate_run import score
from lookalike.training.inputs import CachedInputs, build_cache, build_inputs
from lookalike.training.loop import train
from lookalike.training.projection import init_projection_and_loss
from lookalike.training.setup import build_network
from lookalike.training.state import TrainingState
from lookalike.training.trainable import TrainablePart

SHORT_IMAGES = 4000


def prepare(table: LabeledImages, settings: list[str], folder: Path) -> Start:
    """The start of a run with these settings."""
    context = build_context(table, ["data.workers=0", *settings], folder)
    trainable = build_network(context)
    began = clock()
    cache = build_cache(context, trainable, context.split.trainval)
    inputs, held = (
        build_inputs(context, trainable, part, cache)
        for part in (context.split.train, context.split.validation)
    )
    cache.ensure(range(context.experiment.train.cached_views if context.mode == "partial" else 1))
    seconds = clock() - began
    assert isinstance(inputs, CachedInputs)
    assert isinstance(held, CachedInputs)
    pooled = embed_all(context, trainable, inputs, project=False)
    loss = init_projection_and_loss(context, trainable, inputs, pooled)
    return Start(context, trainable, loss, inputs, held, seconds)


def ours(start: Start, batches: RecordedBatches, *, already: Seconds | float = 0.0) -> Curve:
    """`train`, as a run of `lookalike` calls it."""
    trainable = TrainablePart(start.network(), start.trainable.mode, start.trainable.frozen_stages)
    loss = copy.deepcopy(start.loss)
    curve = Curve("ours", already)
    loss.register_forward_hook(lambda module, given, value: curve.step(value))

    def measure() -> dict[str, float]:
        with curve.validating():
            matrix = embed_all(start.context, trainable, start.held, project=True).numpy()
            return {"map_at_r": score(start.held.table, matrix)["map_at_r"]}

    def on_epoch(state: TrainingState) -> None:
        curve.add(state.history[-1]["validation"]["map_at_r"])

    train(
        trainable,
        loss,
        start.inputs,
        batches,
        start.context.experiment.train.model_copy(update={"patience": None}),
        fabric=start.context.fabric,
        seed=start.context.experiment.seed,
        evaluate=measure,
        on_epoch=on_epoch,
    )
    return curve


def frozen(table: LabeledImages, settings: list[str], folder: Path, *, rounds: int) -> tuple[Curve, Curve]:
    """Ours and plain on features that were made once; prints the account."""
    start = prepare(table, [*settings, "train.mode=frozen"], folder)
    wall, cpu = start.seconds
    print(f"\nfrozen: {start.describe()}")
    print(f"features, common: {wall:.1f} s (CPU {cpu:.1f}; little if an earlier run left them in the cache)")
    curves: dict[str, list[Curve]] = {"ours": [], "plain": []}
    for number in range(rounds):
        batches = {name: start.batches() for name in curves}
        for name in sorted(curves, reverse=number % 2 == 1):
            run = ours if name == "ours" else train_frozen
            curves[name].append(run(start, batches[name]))
        said = check(curves["ours"][-1], curves["plain"][-1], batches["ours"], batches["plain"])
    mine, theirs = median(curves["ours"]), median(curves["plain"])
    print(f"{said}\n{facts(mine)}\n{facts(theirs)}\nmedians of {rounds} rounds:\n{level_table(mine, theirs)}")
    return mine, theirs


def partial(table: LabeledImages, settings: list[str], folder: Path) -> tuple[Curve, Curve, Curve]:
    """Ours, plain, and plain on our cache; prints the account."""
    settings = [*settings, "train.mode=partial"]
    with cold_cache(folder / "ours"):
        start = prepare(table, settings, folder)
        my_batches, plain_batches = start.batches(), start.batches()
        print(f"\npartial: {start.describe()}", flush=True)
        mine = ours(start, my_batches, already=start.seconds)
    print(facts(mine), flush=True)
    with cold_cache(folder / "plain"):
        again = prepare(table, settings, folder)
        cached_batches = again.batches()
        cached = train_partial(again, cached_batches, cached=True)
    print(facts(cached), flush=True)
    print(check(mine, cached, my_batches, cached_batches), flush=True)
    theirs = train_partial(start, plain_batches, cached=False)
    print(facts(theirs), flush=True)
    print(check(mine, theirs, my_batches, plain_batches))
    print(f"{level_table(mine, theirs)}\n\n{level_table(mine, cached)}")
    return mine, theirs, cached


@contextmanager
def cold_cache(folder: Path) -> Iterator[None]:
    """A cache of its own, so that it is made, and timed."""
    usual = os.environ.get("LOOKALIKE_CACHE")
    os.environ["LOOKALIKE_CACHE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["LOOKALIKE_CACHE"]
        if usual is not None:
            os.environ["LOOKALIKE_CACHE"] = usual


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", default="glyphs")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3, help="of frozen")
    parser.add_argument("--losses", nargs="+", choices=PEERS, default=["proxy_anchor"], help="of frozen")
    parser.add_argument("--only", choices=("frozen", "partial"))
    parser.add_argument("--set", nargs="+", default=[], dest="settings", metavar="NAME=VALUE")
    parser.add_argument("--short", action="store_true", help="frozen, 3 epochs, few images, random start")
    options = parser.parse_args()
    import faiss

    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    _keep_freed_memory()
    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {options.threads} threads, "
        f"load {os.getloadavg()[0]:.1f} at the start; torch {torch.__version__}, pytorch-metric-learning "
        f"{version('pytorch-metric-learning')}, faiss {faiss.__version__}"
    )
    table, settings = read(options.data), list(options.settings)
    if options.short:
        step = -(-len(table) // SHORT_IMAGES)
        table = table.of_classes(range(0, table.num_classes, step))
        settings += ["model.start=random", "train.epochs=3"]
    with tempfile.TemporaryDirectory() as folder:
        if options.only != "partial":
            for name in options.losses:
                chosen = [f"loss.name={name}", *PEERS[name].settings, *settings]
                frozen(table, chosen, Path(folder), rounds=options.rounds)
        if options.only != "frozen" and not options.short:
            partial(table, ["loss.name=proxy_anchor", *settings], Path(folder))


if __name__ == "__main__":
    main()
