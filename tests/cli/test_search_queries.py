"""What `lookalike search` takes as queries, and what it refuses; the search itself is not run."""

import io
from pathlib import Path

import pytest

from lookalike.cli.search import _files
from lookalike.errors import ArgumentError


def test_files_folders_and_a_list_on_standard_input_in_this_order(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").write_bytes(b"x")
    monkeypatch.setattr("sys.stdin", io.StringIO("b c.png\n\n/ü.png\n"))
    wanted = ["one.png", f"{tmp_path}/in/a.png", "b c.png", "/ü.png"]
    assert _files(["one.png", str(tmp_path / "in"), "-"]) == list(map(Path, wanted))


@pytest.mark.parametrize(
    ("images", "listed", "words"),
    [
        (["empty"], "", "no image in the folder 'empty'"),
        (["-"], "\ufffdPNG\r\n\0\0\0\rIHDR\n", "name the image as a file"),
    ],
)
def test_what_names_no_image_is_refused(images, listed, words, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO(listed))
    with pytest.raises(ArgumentError, match=words):
        _files(images)
