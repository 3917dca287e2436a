"""Files that cannot be decoded, and test images that training also has."""

import os
import shutil
import socket

import pytest
from filelock import FileLock
from zoo import BROKEN, WHOLE, pattern

from lookalike.data import image_facts, load
from lookalike.data.image_facts import Source, collect_facts
from lookalike.data.image_io import ImageError
from lookalike.data.load import load_images
from lookalike.data.read import read
from lookalike.data.readers.plain import ReadOptions
from lookalike.data.registry import register, registered
from lookalike.data.screen import drop_unreadable, find_test_copies
from lookalike.data.splits import three_way_split
from lookalike.errors import ArgumentError, DataError
from lookalike.utils.progress import Progress


@pytest.fixture
def zoo(tmp_path):
    """good/ with every whole file, bad/ with every broken one and a dangling link, other/ with one whole file."""
    for folder, files in (("good", WHOLE), ("bad", BROKEN), ("other", {"1.png": WHOLE["plain.png"]})):
        for name, data in files.items():
            (tmp_path / "zoo" / folder).mkdir(parents=True, exist_ok=True)
            (tmp_path / "zoo" / folder / name).write_bytes(data)
    (tmp_path / "zoo" / "bad" / "gone.png").symlink_to("/nowhere.png")
    return tmp_path / "zoo"


def test_broken_files_are_skipped_and_named(zoo, caplog):
    table = load_images(zoo)
    assert table.class_names == ("good", "other")
    assert len(table) == len(WHOLE) + 1
    [line] = [line for line in caplog.messages if line.startswith("skipped")]
    assert f"{len(BROKEN) + 1} of {len(WHOLE) + len(BROKEN) + 2} images cannot be decoded" in line
    assert "bomb.png" in line
    assert "and 11 more" in line


def test_or_refused(zoo):
    with pytest.raises(ImageError, match=r"14 of .* cannot be decoded: .*bomb.png.* --on-bad-file skip"):
        load_images(zoo, on_bad_file="fail")
    with pytest.raises(ArgumentError, match="on_bad_file is 'ignore'"):
        load_images(zoo, on_bad_file="ignore")
    shutil.rmtree(zoo / "good")
    shutil.rmtree(zoo / "other")
    with pytest.raises(DataError, match="none of the 14 images can be read"):
        load_images(zoo, labeled=False)


def test_a_file_is_decoded_once_whatever_its_name(photos, monkeypatch):
    files = sorted(photos.rglob("*.jpg"))
    before = collect_facts([Source(file) for file in files])
    monkeypatch.setattr(image_facts, "decode", None)
    os.utime(files[0], (1, 1))
    moved = files[1].rename(photos / "moved.jpg")
    files[1] = moved
    assert collect_facts([Source(file) for file in files]) == before


def test_a_file_that_changed_is_decoded_again(photos):
    table = read(photos)
    assert drop_unreadable(table) == (table, {})
    table.file(2).write_bytes(b"")
    left, bad = drop_unreadable(table)
    assert (len(left), list(bad)) == (5, [table.paths[2]])


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (("a/1", "a/2", "b/1"), "d: images 3, 2 classes"),
        (("train/a/1", "train/b/1", "test/c/1"), "3 classes (images / classes: train 2 / 2; test 1 / 1)"),
        (("1", "2"), "d: images 2, no labels"),
    ],
)
def test_what_was_read_is_said_before_any_image_is_decoded(layout, expected, tmp_path, monkeypatch):
    for number, path in enumerate(layout):
        file = tmp_path / "d" / f"{path}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pattern(seed=number).save(file)
    said = []

    class Said(Progress):
        def say(self, text):
            said.append(text)

    monkeypatch.setattr(load, "drop_unreadable", lambda table, **_: (said.append("decoding"), (table, {}))[1])
    load_images(tmp_path / "d", labeled=False, progress=Said())
    assert said[0].endswith(expected)
    assert said[1] == "decoding"


@pytest.mark.parametrize("damage", ["text", "folder"])
def test_a_damaged_cache_costs_time_alone(photos, cache, damage):
    cache.mkdir()
    file = cache / f"image_facts-{image_facts.VERSION}.sqlite"
    if damage == "folder":
        file.mkdir()
    else:
        file.write_text("no database " * 500)
    table = read(photos)
    assert drop_unreadable(table) == (table, {})


def test_test_images_that_training_has_are_found(tmp_path):
    for c in range(8):
        for i in range(2):
            (tmp_path / "d" / str(c)).mkdir(parents=True, exist_ok=True)
            pattern((48, 32), seed=10 * c + i).save(tmp_path / "d" / f"{c}/{i}.png")
    split = {"test_fraction": 0.3, "validation_fraction": 0.15, "seed": 0, "source": "auto"}
    parts = three_way_split(read(tmp_path / "d"), **split)
    assert find_test_copies(parts) == {}
    test, train = parts.test.paths[0], parts.train.paths[0]
    pattern((96, 64), seed=10 * int(train[0]) + int(train[2])).save(tmp_path / "d" / test, quality=80)
    assert find_test_copies(three_way_split(read(tmp_path / "d"), **split)) == {test: train}


def test_two_processes_may_register_at_once(photos, cache):
    table = read(photos)
    cache.mkdir()
    with FileLock(cache / "datasets.lock"):
        pass
    register("one", photos, table, ReadOptions())
    register("two", photos, table, ReadOptions())
    assert set(registered()) == {"one", "two"}


@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_regular_file_is_not_waited_for(photos, kind):
    place = next(place for place in sorted(photos.iterdir()) if place.is_dir()) / "odd.png"
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "device":
        place.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(place))  # the name of a socket is short
    _, bad = drop_unreadable(read(photos))
    [reason] = bad.values()
    assert "odd.png: cannot be decoded (it is no regular file)" in reason
