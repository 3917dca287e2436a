"""Names of files and folders as people have them: any bytes, links, and what reading and writing them keeps."""

import os

import pytest
from zoo import WHOLE, grow, said

from lookalike.data.read import read
from lookalike.data.readers.write_frame import write_frame
from lookalike.errors import FileError


@pytest.mark.parametrize("name", [n for n in WHOLE if n.startswith("plain.")])
def test_every_suffix_that_is_read_is_found(tmp_path, name):
    for c in "ab":
        (tmp_path / "d" / c).mkdir(parents=True)
        (tmp_path / "d" / c / name.upper()).write_bytes(WHOLE[name])
    assert len(read(tmp_path / "d")) == 2


def test_links(tmp_path):
    store = grow(tmp_path / "store", "a/1.png", "b/1.png")
    albums = tmp_path / "albums"
    albums.mkdir()
    for name, target in (("2024", "a"), ("favorites", "a"), ("2025", "b")):
        (albums / name).symlink_to(store / target)
    (albums / "2025" / "gone.png").symlink_to("/nowhere.png")
    table = read(albums)
    assert table.class_names == ("2024", "2025", "favorites")
    assert said(table, "reached through several links")
    (store / "a" / "up").symlink_to(store)
    with pytest.raises(FileError, match="a link that leads back to"):
        read(store)


NAMES = [
    b"caf\xe9",
    "фото".encode(),
    "e\u0301".encode(),
    b"new\nline",
    b'quo"te',
    b"back\\slash",
    b"x" * 250,
    b" lead",
    b"a,b",
    b"=1+1",
    b"'-x",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_read_split_written_and_read_again(tmp_path, name):
    root = grow(tmp_path / "d", *(f"{c}/{i}.png" for c in range(7) for i in range(2)))
    os.rename(os.fsencode(root) + b"/0", os.fsencode(root) + b"/" + name)
    os.rename(os.fsencode(root) + b"/1/0.png", os.fsencode(root) + b"/1/" + name[:200] + b".png")
    table = read(root)
    assert os.fsdecode(name) in table.class_names
    assert len(table.digest()) == 64
    if b"\\" in name:
        return  # a table's backslash means a folder of Windows
    columns = {"path": list(table.paths), "label": [table.class_names[i] for i in table.labels]}
    write_frame(columns, root / "list.csv")
    again = read(root)
    assert set(again.paths) == set(table.paths)
    assert set(again.class_names) == {name.strip() for name in table.class_names}
