"""Finding the images most like an image: the index, and the engines that search it."""

from lookalike.search.engines import ENGINES
from lookalike.search.index import ImageIndex, IndexedImage, Matches

__all__ = ["ENGINES", "ImageIndex", "IndexedImage", "Matches"]
