"""Images of a table as a PyTorch dataset: opened, cropped to their box, and transformed to tensors."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_io import PILImage, open_image


class Transform(Protocol):
    """From an image to a uint8 (3, S, S) tensor; see `transforms`."""

    random: bool
    at_least: tuple[int, int] | None

    def __call__(self, image: PILImage, draws: np.random.Generator | None = None) -> Tensor: ...


class ImageDataset(Dataset[tuple[Tensor, int, int]]):
    """Images of a table as (uint8 (3, S, S), label, row number).

    What is random in the transform depends on (seed, epoch, row) alone: any number of worker processes, any
    order and any rank give the same pixels. `set_epoch` reaches worker processes that live on between epochs.
    """

    def __init__(self, table: LabeledImages, transform: Transform, *, seed: int = 0) -> None:
        self.table = table
        self.transform = transform
        self.seed = seed
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the random draws of epoch `epoch`."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> tuple[Tensor, int, int]:
        image = open_image(
            self.table.file(index), at_least=self.transform.at_least, box=self.table.box(index)
        )
        draws = None
        if self.transform.random:
            draws = np.random.default_rng((self.seed, int(self._epoch), index))
        return self.transform(image, draws), int(self.table.labels[index]), index
