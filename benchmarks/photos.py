"""Photos of 12 megapixels: seconds of a core to read one for the network, beside a plain loop.

The plain loop is what `torchvision.datasets.ImageFolder` with a random resized crop does: it decodes every photo in
full, in every epoch. A run of mode partial reads each photo once per cached view, at a reduced size. Photos are drawn:
smooth shapes at all scales with fine grain, as JPEG of quality 90. Minutes for many photos are these seconds times
their number, divided by the cores; the network's own time is left out on both sides.

Run: python -m benchmarks.photos [--photos 12]
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.transforms import v2

from lookalike.data.image_io import open_image
from lookalike.data.transforms import EvalTransform
from lookalike.preprocessing import Preprocessing

WIDTH, HEIGHT = 4000, 3000
SIZE, EPOCHS, VIEWS, CORES, MANY = 192, 6, 2, 2, 10_000


def draw_photo(seed: int) -> Image.Image:
    """A photo-like image of 12 megapixels."""
    draws = np.random.default_rng(seed)
    total = np.zeros((HEIGHT, WIDTH, 3), dtype=np.float32)
    for side, weight in ((4, 0.4), (16, 0.25), (64, 0.15), (250, 0.1), (1000, 0.1)):
        noise = draws.integers(0, 256, (side * 3 // 4, side, 3), dtype=np.uint8)
        total += weight * np.asarray(Image.fromarray(noise).resize((WIDTH, HEIGHT)), dtype=np.float32)
    return Image.fromarray(total.clip(0, 255).astype(np.uint8))


def core_seconds(read: Callable[[Path], object], files: list[Path]) -> float:
    """Seconds of a core per photo, whatever else the machine does; the middle one of all photos."""
    seconds = []
    for file in files:
        began = time.process_time()
        read(file)
        seconds.append(time.process_time() - began)
    return float(np.median(seconds))


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=12)
    count = parser.parse_args().photos
    fixed = EvalTransform(Preprocessing(size=SIZE, resize=SIZE))
    crop = v2.RandomResizedCrop(SIZE)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.jpg" for number in range(count)]
        for number, file in enumerate(files):
            draw_photo(number).save(file, quality=90)
        size = np.mean([file.stat().st_size for file in files]) / 1e6
        plain = core_seconds(lambda file: crop(Image.open(file).convert("RGB")), files)
        full = core_seconds(lambda file: fixed(open_image(file)), files)
        reduced = core_seconds(lambda file: fixed(open_image(file, at_least=fixed.at_least)), files)
        difference = np.mean(
            [
                np.abs(
                    fixed(open_image(file)).numpy().astype(int)
                    - fixed(open_image(file, at_least=fixed.at_least)).numpy()
                ).mean()
                for file in files
            ]
        )
    print(
        f"{count} photos of {WIDTH} x {HEIGHT}, {size:.1f} MB each, read for {SIZE} px; milliseconds of a core per "
        "photo"
    )
    print(f"plain loop {1000 * plain:.0f}, decoded in full {1000 * full:.0f}, reduced {1000 * reduced:.0f}")
    print(f"mean difference between full and reduced {difference:.2f} of 255")
    minutes = [MANY * each / CORES / 60 for each in (EPOCHS * plain, VIEWS * reduced)]
    print(
        f"reading {MANY} photos for {EPOCHS} epochs with {CORES} cores (extrapolated): plain loop {minutes[0]:.1f} "
        f"minutes, mode partial {minutes[1]:.1f}"
    )


if __name__ == "__main__":
    main()
