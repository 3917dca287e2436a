"""Networks that embed images, their weights, and how they are saved."""

from lookalike.models.backbones import FROZEN_STAGES, Backbone
from lookalike.models.config import EmbedderConfig
from lookalike.models.embedder import Embedder, build_embedder

__all__ = ["FROZEN_STAGES", "Backbone", "Embedder", "EmbedderConfig", "build_embedder"]
