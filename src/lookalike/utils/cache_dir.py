"""Where files that can be made again are kept."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$LOOKALIKE_CACHE`, or `~/.cache/lookalike`."""
    return Path(os.environ.get("LOOKALIKE_CACHE") or Path.home() / ".cache" / "lookalike")
