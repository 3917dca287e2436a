"""Photos of 12 megapixels: minutes for 10,000 of them, beside a plain DataLoader loop.

The plain loop is what one writes with torchvision: each worker process opens a photo, decodes it in full, and resizes
or crops it. Here a photo is decoded at a reduced size, by threads that take turns with the network, and once for the
check and once for both cached views of a training run. Three things are timed by the wall clock:

    read    every photo once, ready for the network
    embed   every photo through the network, without training
    train   the reading of a run: the check and one pass here, every epoch a full pass there

Photos are images of a data set, enlarged, overlaid with smaller ones and with fine grain, as JPEG of quality 90; a
grain of this strength gives the sizes of files from a phone. Nothing is kept.

Run: python -m benchmarks.photos cars196.zip [--photos 150]
"""

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageChops
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

from lookalike.data.dataloader import image_batches, in_threads
from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.image_facts import table_facts
from lookalike.data.image_io import open_image
from lookalike.data.read import read
from lookalike.data.transforms import EvalTransform
from lookalike.embedding import embed
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.utils.cpus import available_cpus

WIDTH, HEIGHT, GRAIN = 4000, 3000, 6
SIZE, EPOCHS, WORKERS, BATCH, MANY = 224, 6, 2, 32, 10_000
COMPARED = 8
"""Photos whose pixels, decoded reduced and in full, are compared."""


def draw_photo(table: LabeledImages, grain: Image.Image, seed: int) -> Image.Image:
    """A photo-like image of 12 megapixels from images of a table."""
    draws = np.random.default_rng(seed)
    large, *small = (open_image(table.file(row)) for row in draws.integers(len(table), size=13))
    photo = large.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    for image in small:
        side = int(draws.integers(300, 900))
        place = int(draws.integers(WIDTH - side)), int(draws.integers(HEIGHT - side))
        photo.paste(image.resize((side, side), Image.Resampling.BICUBIC), place)
    moved = ImageChops.offset(grain, int(draws.integers(WIDTH)), int(draws.integers(HEIGHT)))
    return ImageChops.add(photo, moved, offset=-128)


def draw_photos(folder: Path, table: LabeledImages, count: int) -> list[Path]:
    """JPEG files of `count` photos."""
    noise = np.random.default_rng(0).normal(128, GRAIN, (HEIGHT, WIDTH)).clip(0, 255).astype(np.uint8)
    grain = Image.merge("RGB", [Image.fromarray(noise)] * 3)
    files = [folder / f"{number:04d}.jpg" for number in range(count)]
    list(in_threads(lambda n: draw_photo(table, grain, n).save(files[n], quality=90), range(count)))
    return files


class PlainPhotos(Dataset[Tensor]):
    """Photos decoded in full, as `torchvision.datasets.ImageFolder` does."""

    def __init__(self, files: list[Path], transform: Callable[[Image.Image], Tensor]) -> None:
        self.files, self.transform = files, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        with Image.open(self.files[index]) as image:
            return self.transform(image.convert("RGB"))


def plain_batches(files: list[Path], *, training: bool) -> DataLoader[Tensor]:
    """A loader with torchvision's usual transforms and two workers."""
    shape = [v2.RandomResizedCrop(SIZE)] if training else [v2.Resize(SIZE), v2.CenterCrop(SIZE)]
    transform = v2.Compose([*shape, v2.PILToTensor()])
    return DataLoader(PlainPhotos(files, transform), batch_size=BATCH, num_workers=WORKERS)


def plain_embed(files: list[Path], embedder: Embedder) -> None:
    """The same network without any preparation for inference, on full decodes."""
    with torch.inference_mode():
        for images in plain_batches(files, training=False):
            embedder(images)


def read_all(table: LabeledImages, transform: EvalTransform) -> None:
    """Every photo once, as a run reads it on a CPU."""
    for _ in image_batches(ImageDataset(table, transform), batch_size=BATCH, workers=0):
        pass


def seconds(work: Callable[[], object]) -> float:
    """By the wall clock."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def difference(files: list[Path], transform: EvalTransform) -> float:
    """Mean difference of pixels between full and reduced decoding, of 255."""
    pairs = (
        [transform(open_image(file, at_least=size)).float() for size in (None, transform.at_least)]
        for file in files[:COMPARED]
    )
    return float(np.mean([(full - reduced).abs().mean().item() for full, reduced in pairs]))


def main() -> None:
    """Draws the photos, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a data set whose images are enlarged to photos")
    parser.add_argument("--photos", type=int, default=150)
    arguments = parser.parse_args()
    torch.set_num_threads(available_cpus())
    table, count = read(arguments.data), arguments.photos
    embedder = build_embedder("tf_efficientnet_lite0", size=SIZE, embedding_dim=512).eval()
    transform = EvalTransform(embedder.preprocessing)
    with tempfile.TemporaryDirectory() as folder:
        files = draw_photos(Path(folder), table, count)
        photos = LabeledImages(
            Path(folder), tuple(file.name for file in files), np.zeros(count, np.int64), ("photo",)
        )
        read_once = seconds(lambda: read_all(photos, transform))
        rows = {
            "read": (
                seconds(lambda: list(plain_batches(files, training=False))),
                read_once,
            ),
            "embed": (
                seconds(lambda: plain_embed(files, embedder)),
                seconds(lambda: embed(embedder, photos)),
            ),
            f"train, {EPOCHS} epochs": (
                EPOCHS * seconds(lambda: list(plain_batches(files, training=True))),
                seconds(lambda: table_facts(photos)) + read_once,
            ),
        }
        megabytes = np.mean([file.stat().st_size for file in files]) / 1e6
        pixels = difference(files, transform)
    print(
        f"{count} photos of {WIDTH} x {HEIGHT}, {megabytes:.1f} MB each, for {SIZE} px, {available_cpus()} CPUs "
        f"({platform.processor() or platform.machine()})"
    )
    print(f"mean difference between full and reduced decoding {pixels:.2f} of 255")
    print(f"minutes for {MANY:,} photos (extrapolated)   plain loop   lookalike   times as fast")
    for name, pair in rows.items():
        plain, ours = (MANY / count * value / 60 for value in pair)
        print(f"{name:<42} {plain:>10.1f} {ours:>11.1f} {plain / ours:>15.1f}")


if __name__ == "__main__":
    main()
