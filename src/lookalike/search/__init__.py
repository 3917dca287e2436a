"""Finding the images most like an image: the index, and the engines that search it."""

from lookalike.search.catalog import IndexedFile
from lookalike.search.engines import ENGINES
from lookalike.search.index import ImageIndex, Match

__all__ = ["ENGINES", "ImageIndex", "IndexedFile", "Match"]
