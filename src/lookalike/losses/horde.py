"""HORDE: a loss on the embedding, and on high-order moments of the feature map that it was pooled from.

Two classes can have the same mean of features and differ in how these vary over the image. The higher
moments regularize training; only the embedding itself is used afterwards.
"""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import Base, build_base
from lookalike.losses.functional import full_precision
from lookalike.losses.levels import one_per_level
from lookalike.utils.validation import check_at_least


class Horde(MetricLoss):
    """HORDE: L = sum_k order_weights[k] * base_k(x_k, y), with x_1 the embedding and x_k a moment of order k.

    phi_2 = (W_a f) * (W_b f),  phi_k = phi_{k-1} * (W_k f),  x_k = H_k mean over places of phi_k

    f is the feature map, W are 1x1 convolutions (Glorot start), * is elementwise, H_k maps to the embedding's
    dimension. Each order has its own copy of the base loss.

    Args:
        channels: F, of the feature map.
        base: the loss of all orders: a name, {"name": ..., "settings": {...}}, or a ready proxy loss.
        orders: K, at least 2.
        moment_channels: M, of the maps phi. Training keeps about 2*K maps of B*M*height*width numbers.
        order_weights: one per order; 1 each when None.
        generator: source of the random start.
    """

    paper = "Jacob et al., Metric Learning with HORDE: High-Order Regularizer for Deep Embeddings, ICCV 2019"
    toy_arguments: ClassVar[dict[str, Any]] = {"channels": 3, "orders": 3, "moment_channels": 6}
    needs_feature_maps: ClassVar[bool] = True

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        channels: int,
        base: Base = "contrastive",
        orders: int = 5,
        moment_channels: int = 8192,
        order_weights: Sequence[float] | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(num_classes, embedding_dim)
        check_at_least("channels", channels, 1)
        check_at_least("orders", orders, 2)
        check_at_least("moment_channels", moment_channels, 1)
        first = build_base(base, num_classes, embedding_dim, generator)
        if first.needs_feature_maps:
            raise ArgumentError(
                f"base is a {type(first).__name__}, which takes feature maps too; name another"
            )
        self.channels = channels
        self.order_weights = one_per_level("order_weights", order_weights, orders, 1.0)
        order_losses = [first, *(copy.deepcopy(first) for _ in range(orders - 1))]
        lifts = [nn.Conv2d(channels, moment_channels, 1, bias=False) for _ in range(orders)]
        heads = [nn.Linear(moment_channels, embedding_dim, bias=False) for _ in range(orders - 1)]
        for order_loss in order_losses[1:]:
            if order_loss.proxy_loss is not None:
                order_loss.proxy_loss.reset_parameters(generator)
        for weight in [layer.weight for layer in lifts] + [layer.weight for layer in heads]:
            nn.init.xavier_uniform_(weight, generator=generator)
        self.order_losses = nn.ModuleList(order_losses)
        self.lifts = nn.ModuleList(lifts)
        self.heads = nn.ModuleList(heads)

    @property
    def proxy_loss(self) -> ProxyLoss | None:
        """That of the embedding itself."""
        first = self.order_losses[0]
        assert isinstance(first, MetricLoss)
        return first.proxy_loss

    def moments(self, feature_maps: Tensor) -> list[Tensor]:
        """Embeddings (B, D) of orders 2 to K of feature maps (B, F, height, width), in float32 or better."""
        if feature_maps.ndim != 4 or feature_maps.shape[1] != self.channels:
            raise ArgumentError(
                f"feature_maps have shape {tuple(feature_maps.shape)}; expected (B, {self.channels}, h, w)"
            )
        first = next(self.lifts.parameters())
        with full_precision(feature_maps):
            maps = feature_maps.to(first.dtype)
            power = self.lifts[0](maps)
            embeddings = []
            for lift, head in zip(self.lifts[1:], self.heads, strict=True):
                power = power * lift(maps)
                embeddings.append(head(power.mean(dim=(2, 3))))
            return embeddings

    # `needs_feature_maps` says that it takes a third argument
    def forward(self, embeddings: Tensor, labels: Tensor, feature_maps: Tensor) -> Tensor:  # type: ignore[override]
        labels = self.checked(embeddings, labels)
        value = embeddings.new_zeros((), dtype=torch.float32)
        for weight, order_loss, x in zip(
            self.order_weights, self.order_losses, [embeddings, *self.moments(feature_maps)], strict=True
        ):
            value = value + weight * order_loss(x, labels)
        return value
