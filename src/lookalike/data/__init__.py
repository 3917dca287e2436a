"""Pictures and their classes: reading, splitting, opening, batching."""

from lookalike.data.readers import read
from lookalike.data.table import CoarseLevel, LabeledImages

__all__ = ["CoarseLevel", "LabeledImages", "read"]
