"""Sharded proxies: each process holds the proxies of a part of the classes, and the loss stays exact.

Every process gets the global batch (`lookalike.utils.distributed.global_batch`), computes its classes in
chunks, and exchanges sums over all classes: the value, B log-sums of exponentials, B x D gradients by the
embeddings. So the loss and all gradients are those of one process with all proxies.
"""

import torch
from torch import Generator, Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base
from lookalike.losses.class_wrapper import chunked_base
from lookalike.losses.kernels.chunks import Part
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
