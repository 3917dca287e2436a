"""The two parts of a network: the frozen one, run once per image, and the one that a training step runs.

| mode     | `FrozenPart`, cached                            | `TrainablePart`                          |
|----------|-------------------------------------------------|------------------------------------------|
| finetune | none                                            | the whole network, on augmented images   |
| partial  | the first stages: activations in half precision | the other stages, pooling and projection |
| frozen   | backbone and pooling: one vector per image      | the projection                           |
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from torch import Tensor
from torch.nn import Parameter

from lookalike.config.schema import Mode
from lookalike.models import pooling
from lookalike.models.checkpoint import digest
from lookalike.models.embedder import Embedder
from lookalike.models.fuse import Folds, find_folds, fuse_for_inference, inference_type
from lookalike.models.trace import parameter_type

Output = Literal["activations", "average_and_maximum", "pooled"]


@dataclass(frozen=True)
class TrainablePart:
    """What a training step runs: all of `embedder`, its stages after the frozen ones, or its projection."""

    embedder: Embedder
    mode: Mode
    frozen_stages: int = 0

    @classmethod
    def of(cls, embedder: Embedder, mode: Mode, frozen_stages: int | None) -> "TrainablePart":
        """The part of a mode.

        Args:
            frozen_stages: of mode partial; None: the backbone's default.
        """
        if mode != "partial":
            return cls(embedder, mode)
        return cls(embedder, mode, frozen_stages or embedder.default_frozen_stages())

    def feature_maps(self, inputs: Tensor) -> Tensor:
        """The backbone's feature maps (B, C, H, W); not for mode frozen, which has none."""
        if self.mode == "partial":
            activations = inputs.to(parameter_type(self.embedder.backbone))
            maps: Tensor = self.embedder.trainable_stages(self.frozen_stages)(activations)
            return maps
        return self.embedder.feature_maps(inputs)

    def pooled(self, inputs: Tensor) -> Tensor:
        """The vector u (B, pooled_dim) that the projection sees."""
        return inputs if self.mode == "frozen" else self.embedder.pool(self.feature_maps(inputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """Raw embeddings (B, embedding_dim)."""
        return self.embedder.project(self.pooled(inputs))

    def backbone_parameters(self) -> list[Parameter]:
        """The backbone's parameters that a step trains."""
        if self.mode == "frozen":
            return []
        if self.mode == "partial":
            trained = self.embedder.stages[self.frozen_stages :]
            return [parameter for stage in trained for parameter in stage.parameters()]
        return list(self.embedder.backbone.parameters())

    @cached_property
    def _folds(self) -> Folds:
        """Found once, since training changes numbers only."""
        return find_folds(self.embedder)

    def for_inference(self) -> "TrainablePart":
        """The same part of a copy of the network with batch norm folded into the convolutions."""
        if self.mode == "frozen":
            return self
        return replace(self, embedder=fuse_for_inference(self.embedder, folds=self._folds))

    def frozen_part(self) -> "FrozenPart":
        """What runs before this part; not for mode finetune, which has none."""
        output: Output = "activations" if self.mode == "partial" else "pooled"
        return FrozenPart(self.embedder, output, self.frozen_stages)


@dataclass(frozen=True)
class FrozenPart:
    """The part of the network that never trains: uint8 images to the inputs of a `TrainablePart`.

    Attributes:
        output: activations after the first `frozen_stages` stages; the pooled vector; or the average and the
            maximum over positions, from which every pooling but k_max follows.
    """

    embedder: Embedder
    output: Output
    frozen_stages: int = 0

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Number type of the outputs on disk."""
        return np.float16 if self.output == "activations" else np.float32

    @cached_property
    def key(self) -> dict[str, Any]:
        """Everything about the network that decides the outputs."""
        key: dict[str, Any] = {"output": self.output, "precision": str(inference_type(self.embedder))}
        if self.output == "activations":
            weights = digest({}, self.embedder.frozen_part(self.frozen_stages).state_dict())
            return key | {"weights": weights, "frozen_stages": self.frozen_stages}
        key["weights"] = digest({}, self.embedder.backbone.state_dict())
        if self.output == "pooled":
            config = self.embedder.config
            key |= {"pooling": config.pooling, "k": config.k, "norm": config.norm}
        return key

    def for_inference(self) -> Callable[[Tensor], Tensor]:
        """The function, by a copy of the network with batch norm folded into the convolutions."""
        fused = fuse_for_inference(self.embedder)
        if self.output == "activations":
            return fused.frozen_part(self.frozen_stages)
        if self.output == "average_and_maximum":
            return lambda images: pooling.average_and_maximum(fused.feature_maps(images))
        return lambda images: fused.pool(fused.feature_maps(images))

    def before_pooling(self) -> "FrozenPart | None":
        """The part whose outputs give these by `pool`; None where the images themselves are needed."""
        if self.output == "pooled" and self.embedder.config.pooling in pooling.FROM_BOTH:
            return replace(self, output="average_and_maximum")
        return None

    def pool(self, both_BG: Tensor) -> Tensor:
        """Pooled vectors from the outputs of `before_pooling`."""
        config = self.embedder.config
        return pooling.normed(pooling.from_average_and_maximum(both_BG, config.pooling), config.norm)
