"""Finding the pictures most like a picture: the index, and the engines that search it."""

from lookalike.search.engines import ENGINES
from lookalike.search.index import ImageIndex, IndexedPicture, Matches

__all__ = ["ENGINES", "ImageIndex", "IndexedPicture", "Matches"]
