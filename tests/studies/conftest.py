"""A cache of their own for the studies' tests, shared by them, so that identical images are seen once."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    """Cached activations do not stay on the machine; the drawn glyphs do, since drawing takes long."""
    monkeypatch.setattr(
        "lookalike.training.feature_cache.cache_folder", lambda: tmp_path_factory.getbasetemp() / "cache"
    )
