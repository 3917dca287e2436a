"""Networks that embed images, their weights, and how they are kept on disk."""

from lookalike.models.backbones import BACKBONES, Backbone
from lookalike.models.embedder import Embedder, build_embedder
from lookalike.models.parts import EmbedderConfig

__all__ = ["BACKBONES", "Backbone", "Embedder", "EmbedderConfig", "build_embedder"]
