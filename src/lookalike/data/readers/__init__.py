"""The layouts of published data sets, one file each; `LAYOUTS` lists them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lookalike.data.dataset import LabeledImages
from lookalike.data.readers import (
    cars196,
    cub200,
    grocery,
    image_column,
    inaturalist,
    inshop,
    omniglot,
    sop,
)


class Reader(Protocol):
    """Reads a folder of a known layout."""

    def __call__(self, folder: Path, *, verify: bool = True) -> LabeledImages: ...


@dataclass(frozen=True)
class Layout:
    """A published data set: how to tell it, how to read it, and what it is."""

    recognizes: Callable[[Path], bool]
    read: Reader
    about: str


LAYOUTS: dict[str, Layout] = {
    "cars196": Layout(cars196.recognizes, cars196.read, "16,185 cars of 196 models; 1-98 train"),
    "cub200": Layout(
        cub200.recognizes, cub200.read, "CUB-200-2011: 11,788 birds of 200 species; 1-100 train"
    ),
    "sop": Layout(sop.recognizes, sop.read, "Stanford Online Products: 120,053 photos of 22,634 products"),
    "inshop": Layout(inshop.recognizes, inshop.read, "In-Shop clothes: 52,712 photos of 7,982 items"),
    "inaturalist": Layout(
        inaturalist.recognizes, inaturalist.read, "iNaturalist 2018: 461,939 photos, 8,142 species"
    ),
    "omniglot": Layout(
        omniglot.recognizes, omniglot.read, "32,460 drawings of 1,623 characters, 50 alphabets"
    ),
    "grocery": Layout(
        grocery.recognizes, grocery.read, "Grocery Store: 5,421 photos, 81 fine and 43 coarse classes"
    ),
    "hugging_face": Layout(
        image_column.recognizes,
        image_column.read,
        "Hugging Face datasets: save_to_disk, or Parquet with images",
    ),
}
