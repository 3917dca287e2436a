"""Finding the images most like an image: the index, and the engines that search it."""

from lookalike.search.engines import ENGINES
from lookalike.search.files import IndexedFile
from lookalike.search.index import ImageIndex
from lookalike.search.matches import Match

__all__ = ["ENGINES", "ImageIndex", "IndexedFile", "Match"]
