"""The part of the network that a training step runs."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import Parameter

from lookalike.config.schema import Mode
from lookalike.models.embedder import Embedder


@dataclass(frozen=True)
class TrainablePart:
    """What a training step runs: all of `embedder`, its stages after the frozen ones, or its projection."""

    embedder: Embedder
    mode: Mode
    frozen_stages: int = 0

    def feature_maps(self, inputs: Tensor) -> Tensor:
        """The backbone's feature maps (B, C, H, W); not for mode frozen, which has none."""
        if self.mode == "partial":
            maps: Tensor = self.embedder.trainable_stages(self.frozen_stages)(inputs.float())
            return maps
        return self.embedder.feature_maps(inputs)

    def pooled(self, inputs: Tensor) -> Tensor:
        """The vector u (B, pooled_dim) that the projection sees."""
        return inputs if self.mode == "frozen" else self.embedder.pool(self.feature_maps(inputs))

    def embed(self, inputs: Tensor) -> Tensor:
        """Raw embeddings (B, embedding_dim)."""
        return self.embedder.project(self.pooled(inputs))

    def backbone_parameters(self) -> list[Parameter]:
        """The backbone's parameters that this tail runs through."""
        if self.mode == "frozen":
            return []
        if self.mode == "partial":
            stages = self.embedder.stages
            assert stages is not None
            return [p for stage in stages[self.frozen_stages :] for p in stage.parameters()]
        return list(self.embedder.backbone.parameters())
