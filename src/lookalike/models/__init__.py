"""Networks that embed pictures, their weights, and how they are kept on disk."""

from lookalike.models.backbones import BACKBONES, Backbone
from lookalike.models.embedder import Embedder, EmbedderConfig, build_embedder

__all__ = ["BACKBONES", "Backbone", "Embedder", "EmbedderConfig", "build_embedder"]
