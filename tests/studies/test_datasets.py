"""Finding a row's images in a folder of benchmarks."""

import shutil

import numpy as np
import pytest

from lookalike.data.readers import LAYOUTS, Layout
from lookalike.errors import FileError
from lookalike.studies import datasets as sources
from lookalike.studies.datasets import Images
from toys import colored_squares


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder with a benchmark that is recognized by a file, one known by its name, and an unrelated one."""
    for name in ("birds here", "Cars of mine", "other"):
        colored_squares(tmp_path / name)
    (tmp_path / "birds here" / "CUB").touch()

    def layout(name):
        return Layout(lambda f: (f / "CUB").exists(), lambda f, verify=True: _named(f, name), name)

    for name in ("cub200", "cars196"):
        monkeypatch.setitem(LAYOUTS, name, layout(name))
    return tmp_path


def _named(folder, name):
    from dataclasses import replace

    return replace(colored_squares(folder), name=name)


def test_a_benchmark_is_found_by_its_layout(root):
    assert Images(root).of("cub200").name == "cub200"


def test_what_is_missing_is_said(root):
    with pytest.raises(FileError, match=r"no Stanford Online Products in .*--dataset"):
        Images(root).of("sop")


def test_why_a_folder_of_the_right_name_is_not_it_is_said(root):
    shutil.rmtree(root / "birds here")
    with pytest.raises(FileError, match=r"no Cars196 .*does not look like cars196"):
        Images(root).of("cars196")


def test_another_data_set_serves_every_row_and_is_read_once(root, monkeypatch):
    reads = []
    monkeypatch.setattr(sources, "read", lambda source: reads.append(source) or "table")
    images = Images(root, "other")
    assert images.of("cub200") is images.of("sop")
    assert reads == [root / "other"]


def test_squares_are_what_they_say(squares):
    assert np.array_equal(squares.class_counts(), np.full(16, 4))
