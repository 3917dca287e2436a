"""Fixtures of the studies' and protocols' tests."""

import pytest

from toys import colored_squares


@pytest.fixture(scope="session")
def squares(tmp_path_factory):
    return colored_squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Cached activations of these tests do not stay on the machine; drawn glyphs are shared."""
    patch = pytest.MonkeyPatch()
    from lookalike.data.glyphs import draw_glyphs

    draw_glyphs()
    patch.setattr("lookalike.cache.cache_folder", lambda: tmp_path_factory.getbasetemp() / "cache")
    yield
    patch.undo()
