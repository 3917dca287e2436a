"""Where the cache lies and how large it may be."""

import pytest

from lookalike.errors import ArgumentError, FileError
from lookalike.utils import cache_dir
from lookalike.utils.cache_dir import cache_folder, cache_limit, format_size, inside_cache, parse_size


def test_the_environment_variable_moves_it(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert inside_cache(tmp_path / "activations" / "x.npy")
    assert not inside_cache(tmp_path.parent / "elsewhere")


@pytest.mark.parametrize("answer", ["~/.cache/lookalike", RuntimeError("no home")])
def test_a_user_without_home_is_reported_which_variable_to_set(monkeypatch, answer):
    from pathlib import Path

    def folder(name):
        if isinstance(answer, Exception):
            raise answer
        return Path(answer)

    monkeypatch.delenv("LOOKALIKE_CACHE", raising=False)
    monkeypatch.setattr(cache_dir.platformdirs, "user_cache_path", folder)
    with pytest.raises(FileError, match="set LOOKALIKE_CACHE"):
        cache_folder()


@pytest.mark.parametrize(
    ("text", "size"), [("20GB", 20 * 10**9), ("500 mb", 5 * 10**8), ("1.5KB", 1500), ("0", 0), ("7", 7)]
)
def test_sizes_are_read(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "ten", "1 PB"])
def test_what_is_no_size_is_refused(text, monkeypatch):
    with pytest.raises(ArgumentError, match="such as 20GB"):
        parse_size(text)
    if text:
        monkeypatch.setenv("LOOKALIKE_CACHE_LIMIT", text)
        with pytest.raises(ArgumentError, match="LOOKALIKE_CACHE_LIMIT"):
            cache_limit()


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (50 * 10**9, "50.0 GB")]
)
def test_sizes_are_written(size, text):
    assert format_size(size) == text
