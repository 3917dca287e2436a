"""Whether decoding keeps up with the network: images per second of each alone, and of both together.

    python -m benchmarks.loader DATA [--threads N] [--workers W] [--size 112] [--images 1440] [--short]

DATA is whatever `lookalike` reads. Its images are measured as they are, and once more as photos of 800 x 600,
made from them for the occasion.

decoding   one process: opening (in full, and as a JPEG drafted at a lower resolution), both transforms of an
           opened image, and both from file to tensor
loaders    the images as training and embedding receive them, with nobody to take them
training   mode finetune (the whole backbone, batches of 90, Proxy-Anchor, AdamW): `train` on batches that lie
           ready in memory, and on the files; epochs take turns
embedding  `fuse_for_inference` on ready batches of 64, and `embed` on the files; they take turns
memory     growth of the peak while `embed_to_file` writes an .npy of N and of 2 N images

Each section runs in a process of its own, since what one leaves in memory would be forked into the workers of
the next. Medians, the first of everything not counted. Rates and shares are given twice, by the wall clock and
by the CPU seconds of the process and its workers together; where other work shares the machine, read the latter.
A share is the rate on ready images over the rate from the files; by CPU seconds it is the network's part of
all the work. Freed memory is reused, as `lookalike` on the command line does.
"""

import argparse
import multiprocessing
import os
import resource
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from benchmarks import Seconds, peak_bytes, reset_peak
from lookalike.__main__ import _keep_freed_memory
from lookalike.config.schema import TrainSettings
from lookalike.data.dataloader import decoding_workers, embedding_workers, image_batches
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.image_io import open_image
from lookalike.data.read import read
from lookalike.data.samplers import RandomBatches
from lookalike.data.transforms import EvalTransform, TrainTransform
from lookalike.embedding import embed, embed_to_file
from lookalike.losses import ProxyAnchor
from lookalike.models.embedder import build_embedder
from lookalike.models.fuse import fuse_for_inference
from lookalike.preprocessing import Preprocessing
from lookalike.training.inputs import ImageInputs
from lookalike.training.loop import train
from lookalike.training.trainable import TrainablePart

BACKBONE, CROPS = "tf_efficientnet_lite0", (0.4, 1.0)
TRAINING, EMBEDDING = 90, 64
Section = Callable[[LabeledImages, argparse.Namespace], None]


def clock() -> Seconds:
    """The time now; of the processors, this process's and its workers' together."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(part.ru_utime + part.ru_stime for part in used)
    for child in multiprocessing.active_children():
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        cpu += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return np.array([time.perf_counter(), cpu])


def photos(table: LabeledImages, folder: Path) -> LabeledImages:
    """The images enlarged to 800 x 600."""
    for row in range(len(table)):
        open_image(table.file(row)).resize((800, 600)).save(folder / f"{row}.jpg", quality=90)
    return LabeledImages(
        folder, tuple(f"{row}.jpg" for row in range(len(table))), table.labels, table.class_names
    )


def report(name: str, images: int, seconds: Seconds, floor: Seconds | None = None) -> None:
    """One line: images per second by both clocks, and the shares of the floor's."""
    wall, cpu = images / seconds
    shares = "" if floor is None else "{:8.0%} {:8.0%}".format(*(floor / seconds))
    print(f"  {name:44} {wall:8,.0f} {cpu:8,.0f} {shares}", flush=True)


def median_of(rounds: int, works: dict[str, Callable[[], object]]) -> dict[str, Seconds]:
    """Seconds of each, taking turns; the first round is not counted."""
    spent: defaultdict[str, list[Seconds]] = defaultdict(list)
    for _ in range(rounds + 1):
        for name, work in works.items():
            began = clock()
            work()
            spent[name].append(clock() - began)
    return {name: np.median(times[1:], axis=0) for name, times in spent.items()}


def decoding(table: LabeledImages, options: argparse.Namespace) -> None:
    """One process, no DataLoader."""
    preprocessing = Preprocessing(size=options.size, resize=options.size)
    plain, crops = EvalTransform(preprocessing), TrainTransform(preprocessing, scale=CROPS)
    table = table.rows(range(min(len(table), 200)))
    files = [table.file(row) for row in range(len(table))]
    opened = [open_image(file) for file in files]
    drafted = [open_image(file, at_least=crops.at_least) for file in files]
    draws = np.random.default_rng(0)
    datasets = [ImageDataset(table, transform) for transform in (plain, crops)]
    works: dict[str, Callable[[], object]] = {
        "open, in full": lambda: [open_image(file) for file in files],
        f"open, drafted to at least {crops.at_least}": lambda: [
            open_image(file, at_least=crops.at_least) for file in files
        ],
        "test transform": lambda: [plain(image) for image in opened],
        "train transform": lambda: [crops(image, draws) for image in opened],
        "train transform, drafted": lambda: [crops(image, draws) for image in drafted],
        "file to test tensor": lambda: [datasets[0][row] for row in range(len(table))],
        "file to train tensor": lambda: [datasets[1][row] for row in range(len(table))],
    }
    for name, seconds in median_of(options.rounds, works).items():
        report(name, len(table), seconds)


def loaders(table: LabeledImages, options: argparse.Namespace) -> None:
    """As training and embedding receive them."""
    inputs, kept = build_inputs(table, options), build_inputs(table, options, kept=True)
    kept.prepare(1)
    plain = ImageDataset(table, EvalTransform(Preprocessing(size=options.size, resize=options.size)))
    batches = RandomBatches(table.labels, batch_size=TRAINING)
    trainers, embedders = decoding_workers(options.workers), embedding_workers(options.workers, "cpu")
    works: dict[str, Callable[[], object]] = {
        f"loader of training, {trainers} processes": lambda: list(map(len, inputs.batches(batches))),
        f"the same, kept images, {trainers} processes": lambda: list(map(len, kept.batches(batches))),
        f"loader of embedding, {embedders} processes": lambda: list(
            map(len, image_batches(plain, batch_size=EMBEDDING, workers=embedders))
        ),
    }
    for name, seconds in median_of(options.rounds, works).items():
        report(name, len(table), seconds)


def build_inputs(table: LabeledImages, options: argparse.Namespace) -> ImageInputs:
    """What mode finetune reads."""
    crops = TrainTransform(Preprocessing(size=options.size, resize=options.size), scale=CROPS)
    return ImageInputs(table, crops, seed=0, workers=options.workers)


class TakingTurns:
    """Inputs that lie ready in memory in even epochs, and are read from the files in odd ones."""

    def __init__(self, inputs: ImageInputs) -> None:
        self.inputs, self.table, self.labels = inputs, inputs.table, inputs.labels
        self.images = torch.cat([image for (image,) in inputs.iter_eval()])

    def __len__(self) -> int:
        return len(self.table)

    def prepare(self, epoch: int) -> None:
        """See `lookalike.training.inputs.Inputs`."""
        self.ready = epoch % 2 == 0
        self.inputs.prepare(epoch)

    def batches(self, rows: Iterable[list[int]]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `lookalike.training.inputs.Inputs`."""
        if self.ready:
            yield from [(self.images[batch], self.labels[batch]) for batch in rows]
        else:
            yield from self.inputs.batches(rows)

    def iter_eval(
        self, first: int = 0, end: int | None = None, *, views: int = 1
    ) -> Iterator[tuple[Tensor, ...]]:
        """See `lookalike.training.inputs.Inputs`."""
        return self.inputs.iter_eval(first, end, views=views)


def training(table: LabeledImages, options: argparse.Namespace) -> None:
    """Mode finetune on ready batches and on the files."""
    embedder = build_embedder(BACKBONE, weights="none", size=options.size)
    embedder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    ends: list[Seconds] = []
    train(
        TrainablePart(embedder, "finetune"),
        ProxyAnchor(table.num_classes, embedder.embedding_dim),
        TakingTurns(build_inputs(table, options)),
        RandomBatches(table.labels, batch_size=TRAINING),
        TrainSettings(mode="finetune", epochs=2 * options.rounds + 2, lr=1e-4, head_lr=1e-4, proxy_lr=1e-2),
        fabric=Fabric(accelerator="cpu", devices=1),
        seed=0,
        evaluate=None,
        on_epoch=lambda state: ends.append(clock()),
    )
    epochs = np.diff(np.array(ends), axis=0)  # of epochs 1, 2, ...
    files, bare = (np.median(epochs[first::2], axis=0) for first in (2, 3))  # epochs 3, 4, ...
    report("training, ready batches", len(table), bare)
    report("training, from the files", len(table), files, bare)


def embedding(table: LabeledImages, options: argparse.Namespace) -> None:
    """All images, ready in memory, and from their files."""
    embedder = build_embedder(BACKBONE, weights="none", size=options.size)
    dataset = ImageDataset(table, EvalTransform(embedder.preprocessing))
    images = torch.cat(list(image_batches(dataset, batch_size=EMBEDDING, workers=0)))
    fast = fuse_for_inference(embedder)

    def bare() -> None:
        with torch.inference_mode():
            for batch in images.split(EMBEDDING):
                fast(batch)

    def files() -> None:
        embed(embedder, table, batch_size=EMBEDDING, workers=options.workers)

    seconds = median_of(options.rounds, {"bare": bare, "files": files})
    report("embedding, ready batches", len(table), seconds["bare"])
    report("embedding, from the files", len(table), seconds["files"], seconds["bare"])


def memory(table: LabeledImages, options: argparse.Namespace) -> None:
    """Growth of the peak for half of the table and for all of it, after a first file that is not counted."""
    embedder = build_embedder(BACKBONE, weights="none", size=options.size)
    half = table.rows(range(len(table) // 2))
    with tempfile.TemporaryDirectory() as folder:
        for part, name in ((half, None), (half, f"{len(half)}"), (table, f"{len(table)}")):
            reset_peak()
            before = peak_bytes()
            embed_to_file(embedder, part, Path(folder) / "embeddings.npy")
            grown = (peak_bytes() - before) / 2**20
            if name is not None:
                print(f"  embedding {name} images to .npy{'':20} peak grows by {grown:.1f} MB", flush=True)


def alone(section: Section, table: LabeledImages, options: argparse.Namespace) -> None:
    """Runs a section in a process of its own: what one leaves in memory is not forked into another's workers."""
    process = multiprocessing.Process(target=_section, args=(section, table, options))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def _section(section: Section, table: LabeledImages, options: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    _keep_freed_memory()
    torch.set_num_threads(options.threads)
    section(table, options)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--workers", type=int, help="decoding processes; as by default if not given")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--images", type=int, default=1440)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(SECTIONS), choices=list(SECTIONS))
    parser.add_argument("--short", action="store_true", help="180 images, one round")
    options = parser.parse_args()
    if options.short:
        options.images, options.rounds = 180, 1
    whole = read(options.data)
    spread = np.linspace(0, len(whole) - 1, min(options.images, len(whole))).astype(int)
    table = whole.rows(spread)
    workers = "workers as by default" if options.workers is None else f"{options.workers} workers"
    print(f"{options.size} px, {options.threads} threads, {workers}; images per second")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LOOKALIKE_CACHE"] = str(Path(folder) / "cache")
        few = table.rows(range(0, len(table), max(1, len(table) // 360)))
        for name, part in (
            ("as they are", table),
            ("photos of 800 x 600", photos(few, Path(folder))),
        ):
            print(f"{len(part):5} {name:40} {'wall':>8} {'CPU':>8}    share    share", flush=True)
            for section in options.only:
                alone(SECTIONS[section], part, options)


SECTIONS: dict[str, Section] = {
    part.__name__: part for part in (decoding, loaders, training, embedding, memory)
}


if __name__ == "__main__":
    main()
