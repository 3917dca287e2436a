"""Sharded proxies: each process holds the proxies of a part of the classes, and the loss stays exact.

Every process gets the global batch (`lookalike.utils.distributed.global_batch`), computes its classes in
chunks, and exchanges sums over all classes: the value, B log-sums of exponentials, B x D gradients by the
embeddings. So the loss and all gradients are those of one process with all proxies.

The name of a shard's file has its range of classes, so that any number of processes can read what any other
number has written; each reads only its rows.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Generator, Tensor, nn

from lookalike.errors import ArgumentError, FileError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base
from lookalike.losses.kernels.chunks import Part
from lookalike.losses.sampled import chunked_base
from lookalike.utils.distributed import Processes


class Sharded(MetricLoss):
    """A base loss whose proxies are divided by class over the processes, in order of rank.

    Args:
        base: Proxy-Anchor, SoftTriple or a softmax loss: a name, {"name": ..., "settings": {...}}, or ready.
        processes: those of torch.distributed when None.
        generator: source of the proxies' random start. All proxies are drawn, a block at a time, and the rows of
            this process kept, so that the start is the same for any number of processes; without it, seed
            torch equally on all of them.

    `forward` takes the global batch, the same on every process. `proxies` are the rows of this process; their
    gradient is complete and must not be averaged over processes (keep this module out of
    DistributedDataParallel).
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        base: Base = "norm_softmax",
        processes: Processes | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        self.processes = processes or Processes.all()
        if num_classes < self.processes.size:
            raise ArgumentError(
                f"{num_classes} classes cannot be divided over {self.processes.size} processes; use fewer"
            )
        self.first, self.end = self.processes.share(num_classes)
        if isinstance(base, MetricLoss):
            self.base = chunked_base(base, num_classes, embedding_dim)
            n = self.base.proxies_per_class
            rows = self.base.proxies.detach()[self.first * n : self.end * n].clone()
            self.base.proxies = nn.Parameter(rows)
            return
        with torch.device("meta"):  # all proxies together may be more than one process can hold
            self.base = chunked_base(base, num_classes, embedding_dim)
        held = (self.end - self.first) * self.base.proxies_per_class
        self.base.proxies = nn.Parameter(torch.empty(held, embedding_dim))
        self.base.reset_parameters(generator, first=self.first)

    @property
    def proxies(self) -> nn.Parameter:
        """The proxies of classes first..end-1, class-major."""
        return self.base.proxies

    @property
    def proxy_loss(self) -> ProxyLoss:
        """The base loss, which holds the rows of this process only."""
        return self.base

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        labels = self.checked(embeddings, labels)
        part = Part(num_classes=self.num_classes, start=self.first, processes=self.processes)
        return self.base.chunked(embeddings, self.base.proxies, labels, part)

    def initialize_proxies_at_class_means(
        self, embeddings_MD: Tensor, labels_M: Tensor, generator: Generator | None = None
    ) -> None:
        """Puts the proxies of this process at the class means, as one process would."""
        self.base.initialize_proxies_at_class_means(embeddings_MD, labels_M, generator, first=self.first)

    def save(self, folder: Path) -> None:
        """Writes the proxies of this process; every process calls it with the same folder."""
        save_rows(
            folder, {"proxies": self._by_class(self.proxies)}, first=self.first, num_classes=self.num_classes
        )

    @torch.no_grad()
    def load(self, folder: Path) -> None:
        """Reads the proxies of this process from files of any number of processes."""
        rows = load_rows(folder, ["proxies"], first=self.first, end=self.end)
        self.proxies.copy_(rows["proxies"].view_as(self.proxies))

    def _by_class(self, rows: Tensor) -> Tensor:
        return rows.detach().view(self.end - self.first, -1)


def save_rows(folder: Path, tensors: Mapping[str, Tensor], *, first: int, num_classes: int) -> None:
    """Writes tensors whose rows are classes first, first+1, ... as `classes-<first>-<end>.safetensors`.

    Raises:
        FileError: the folder holds rows of classes that overlap these.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (count,) = {len(tensor) for tensor in tensors.values()}
    end = first + count
    for other_first, other_end, file in _shards(folder):
        if (other_first, other_end) != (first, end) and other_first < end and first < other_end:
            raise FileError(
                f"{file} holds classes {other_first} to {other_end - 1}, which overlap {first} to {end - 1}; "
                "save to a new folder when the number of processes changes"
            )
    save_file(
        {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()},
        folder / f"classes-{first:010d}-{end:010d}.safetensors",
        metadata={"num_classes": str(num_classes)},
    )


def load_rows(folder: Path, names: Iterable[str], *, first: int, end: int) -> dict[str, Tensor]:
    """Rows first..end-1 of the named tensors, from files written by any number of processes.

    Raises:
        FileError: some of these classes are in no file.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    reached = first
    for start, stop, file in _shards(folder):
        if start <= reached < min(stop, end):
            with safe_open(file, framework="pt") as shard:
                for name, found in parts.items():
                    found.append(shard.get_slice(name)[reached - start : min(stop, end) - start])
            reached = min(stop, end)
    if reached < end:
        raise FileError(f"no file in {folder} holds class {reached}; classes {first} to {end - 1} are needed")
    return {name: torch.cat(found) for name, found in parts.items()}


def _shards(folder: Path) -> list[tuple[int, int, Path]]:
    """First class, end and file of each shard, by first class."""
    files = folder.glob("classes-*-*.safetensors")
    return sorted((int(file.stem.split("-")[1]), int(file.stem.split("-")[2]), file) for file in files)
