"""Folders and archives as people have them: parts at any level, tables in them, odd names, links."""

import contextlib
import errno
import re
import shutil
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
from zoo import encoded, grow, said

from lookalike.data.dataset import LabeledImages
from lookalike.data.labels import label_key, similar_labels
from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.errors import DataError, FileError, LookalikeError
from lookalike.utils.validation import look_up


@pytest.mark.parametrize("prefix", ["", "set/", "set/images/"])
@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("train", "test"), ("train", "test")),
        (("training", "testing"), ("train", "test")),
        (("train", "eval"), ("train", "test")),
        (("Train", "DEV", "Evaluation"), ("train", "validation", "test")),
        (("train", "valid"), ("train", "validation")),
        (("train_set", "test_set"), ("train", "test")),
        (("Training Images", "validation-data"), ("train", "validation")),
        (("bounding_box_train", "bounding_box_test"), ("train", "test")),
    ],
)
def test_parts_are_recognized_by_name_at_any_level(tmp_path, prefix, names, splits):
    root = grow(tmp_path / "d", *(f"{prefix}{name}/{name}-{c}/1.png" for name in names for c in "ab"))
    table = read(root)
    assert table.splits() == splits
    assert {name.rpartition("/")[2] for name in table.class_names} == {
        f"{n}-{c}" for n in names for c in "ab"
    }


def test_parts_inside_class_folders(tmp_path):
    table = read(
        grow(tmp_path / "d", "cat/train/1.png", "cat/test/2.png", "owl/train/1.png", "owl/test/1.png")
    )
    assert (table.class_names, table.splits()) == (("cat", "owl"), ("train", "test"))


def test_images_right_in_a_part_are_in_no_class(tmp_path):
    root = grow(tmp_path / "d", *(f"x/train/{c}/{i}.png" for c in "abc" for i in range(2)), "x/test/1.png")
    with pytest.raises(DataError, match=r"1 images lie outside class folders, first x/test/1\.png"):
        read(root)
    assert len(read(root, labeled=False)) == 7


def test_negative_numbers_are_classes_in_no_reader(tmp_path):
    (tmp_path / "t.csv").write_text(
        "path,label\nx,-1.0\ny,2.0\n"
    )  # as pandas writes it where a label is missing
    with pytest.raises(DataError, match=r"line 2 \(x\) has label -1\.0; .* --ignore-label=-1\.0"):
        read(tmp_path / "t.csv")
    root = grow(tmp_path / "d", *(f"{c}/{i}.png" for c in ("-1", "2", "3") for i in range(2)))
    with pytest.raises(DataError, match=r"the folder -1/ has label -1; .* --ignore-label=-1"):
        read(root)
    assert read(root, ignore_labels=["-1"]).class_names == ("2", "3")
    assert len(read(root, labeled=False)) == 6


def test_archives_that_are_not_unpacked_are_named(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "owl.zip").write_bytes(b"PK")
    with pytest.raises(DataError, match=r"holds no images .*; unpack owl\.zip and the like first"):
        read(tmp_path / "d")


def test_query_and_gallery_are_roles_of_the_test_part(tmp_path):
    root = grow(
        tmp_path / "d",
        "train/1/a.png",
        "train/2/a.png",
        "query/3/q.png",
        "gallery/3/g.png",
        "gallery/4/g.png",
    )
    table = read(root)
    assert dict(zip(table.paths, zip(table.split, table.role, strict=True), strict=True)) == {
        "train/1/a.png": ("train", "both"),
        "train/2/a.png": ("train", "both"),
        "query/3/q.png": ("test", "query"),
        "gallery/3/g.png": ("test", "gallery"),
        "gallery/4/g.png": ("test", "gallery"),
    }


def test_a_folder_next_to_the_parts_with_the_same_classes_is_reported(tmp_path):
    table = read(grow(tmp_path / "d", "train/cat/1.png", "train/owl/1.png", "extra/cat/1.png"))
    assert said(table, "train/ and extra/ hold the same class names, such as cat")
    assert not read(grow(tmp_path / "e", "train/cat/1.png", "crash/owl/1.png")).notes
    folds = [f"fold{k}/{name}/1.png" for k in (1, 2) for name in ("cat", "owl")]
    assert said(
        read(grow(tmp_path / "f", *folds)), "fold1/ and fold2/ hold the same class names, such as cat"
    )
    assert not read(grow(tmp_path / "g", *folds[:3])).notes


def test_classes_of_folders_can_be_left_out(tmp_path):
    table = read(grow(tmp_path / "d", "cat/1.png", "owl/1.png", "junk/1.png"), ignore_labels=["junk"])
    assert (table.class_names, said(table, "the classes junk are left out")) == (("cat", "owl"), True)


def test_a_folder_named_like_a_table_is_a_class(tmp_path):
    table = read(grow(tmp_path / "d", "2024.csv/1.png", "b.parquet/1.png"))
    assert (table.class_names, table.notes) == (("2024.csv", "b.parquet"), ())


def test_a_folder_without_permission_is_named(tmp_path, monkeypatch):
    file = tmp_path / "locked" / "some.file"
    file.parent.mkdir()
    error = PermissionError(errno.EACCES, "Permission denied", str(file))
    monkeypatch.setattr("lookalike.data.read._read_folder", Mock(side_effect=error))
    with pytest.raises(DataError, match=r"some\.file: cannot be read"):
        read(tmp_path)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(DataError, match="locked: cannot be entered; change its permissions"):
        read(tmp_path)


def test_raw_files_of_cameras_are_left_out_and_counted(tmp_path):
    root = grow(tmp_path / "d", "cat/1.jpg", "owl/1.jpg", "cat/1.CR2", "owl/1.dng")
    for raw in ("cat/1.CR2", "owl/1.dng"):
        (root / raw).write_bytes(encoded("tiff"))
    table = read(root)
    assert (table.paths, said(table, ".cr2 1, .dng 1")) == (("cat/1.jpg", "owl/1.jpg"), True)


def test_another_top_folder_never_changes_what_is_known(tmp_path):
    root = grow(tmp_path / "d", "2024/jan/1.png", "2024/feb/1.png")
    before = {labeled: read(root, labeled=labeled) for labeled in (True, False)}
    grow(root, "2025/jan/1.png")
    for labeled, table in before.items():
        after = read(root, labeled=labeled)
        assert after.root == table.root
        assert set(table.paths) < set(after.paths)
        assert set(table.class_names) < set(after.class_names)


def test_what_is_left_out_is_counted_and_named(tmp_path):
    root = grow(tmp_path / "d", "a/1.png", "b/1.png", "b/2.jpg.1", "b/3.jpg_large", "b/4")
    for name in (
        "a/notes.txt",
        "a/more.txt",
        "b/clip.mp4",
        "README.md",
        ".hidden/x.png",
        "a/._1.png",
        "Thumbs.db",
    ):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    table = read(root)
    assert len(table) == 5
    assert table.notes == (
        "3 files are not images and were left out: .txt 2, .mp4 1 (first a/more.txt)",
    ) or said(table, "3 files are not images and were left out: .txt 2, .mp4 1")


@pytest.mark.parametrize(
    ("litter", "note"),
    [
        (".45 caliber/1.png", "hidden folders with images, left out: 1, first .45 caliber"),
        (
            "a/.IMG_1.HEIC.icloud",
            "images in iCloud alone, to be downloaded before they can be read: 1, first a/.IMG_1",
        ),
        ("c/.DS_Store", "folders without an image: 1, first c"),
        ("a/thumbnails/1.png", "1 classes lie inside other classes .* such as a/thumbnails"),
    ],
)
def test_what_is_silently_lost_elsewhere_is_said(tmp_path, litter, note):
    root = grow(tmp_path / "d", "a/1.png", "b/1.png")
    (root / litter).parent.mkdir(exist_ok=True)
    shutil.copyfile(root / "a/1.png", root / litter)
    assert len(read(root)) == 2 + (litter == "a/thumbnails/1.png")
    assert [one for one in read(root).notes if re.match(note, one)]
    for system in (".thumbnails/1.png", ".git/x", "@eaDir/1.png"):
        (root / system).parent.mkdir()
        shutil.copyfile(root / "a/1.png", root / system)
    assert len(read(root).notes) == 1


class TestArchives:
    def zipped(self, folder, file):
        return shutil.make_archive(str(file), "zip", folder)

    def test_archives_in_archives(self, tmp_path):
        grow(tmp_path / "train", "a/1.png", "b/1.png")
        grow(tmp_path / "test", "test/c/1.png")
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as bundle:
            for part in ("train", "test"):
                bundle.write(self.zipped(tmp_path / part, tmp_path / part), f"{part}.zip")
        table = read(tmp_path / "all.zip")
        assert (table.class_names, table.splits()) == (("a", "b", "c"), ("train", "test"))

    def test_archives_too_deep_are_refused(self, tmp_path):
        grow(tmp_path / "0", "a/1.png")
        inner = self.zipped(tmp_path / "0", tmp_path / "z0")
        for depth in range(1, 5):
            with zipfile.ZipFile(tmp_path / f"z{depth}.zip", "w") as bundle:
                bundle.write(inner, f"{depth}.zip")
            inner = tmp_path / f"z{depth}.zip"
        with pytest.raises(FileError, match="nested more than 3 deep"):
            read(inner)

    def test_names_without_the_utf8_flag(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
            for name in ("кот/1.png", "b/1.png", "12:30/1.png", "w\\1.png"):
                bundle.writestr(name, encoded("png"))
        data = (tmp_path / "x.zip").read_bytes()
        for head, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
            start = -1
            while (start := data.find(head, start + 1)) >= 0:
                data = data[: start + at + 1] + bytes([data[start + at + 1] & ~8]) + data[start + at + 2 :]
        (tmp_path / "x.zip").write_bytes(data)
        assert read(tmp_path / "x.zip").class_names == ("12:30", "b", "w", "кот")

    def test_names_that_cannot_be_written_say_so(self, tmp_path):
        for names in (["a" * 300 + "/1.png"], ["a", "a/b.png"]):
            with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
                for name in names:
                    bundle.writestr(name, b"x")
            with pytest.raises(FileError, match="cannot be unpacked"):
                read(tmp_path / "x.zip")


def test_labels_alike():
    assert similar_labels(["cat", "Cat", "red shirt", "red_shirt", "7", "07", "7.0", "8"]) == [
        ["cat", "Cat"],
        ["red shirt", "red_shirt"],
        ["7", "07", "7.0"],
    ]
    assert label_key("00") == label_key("0")
    assert label_key("e\u0301") == label_key("\u00e9")
    assert label_key("\u200bcat\ufeff") == label_key("cat")
    assert label_key("-1") != label_key("1")


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_reader_never_fails_with_anything_but_a_data_error(tmp_path, name):
    """Empty, short and odd lists under the names that published layouts use."""
    lists = [
        "images.txt",
        "image_class_labels.txt",
        "Ebay_train.txt",
        "Ebay_test.txt",
        "classes.csv",
        "split.csv",
    ]
    lists += ["Eval/list_eval_partition.txt", "cars_annos.mat", "cars_train_annos.mat", "categories.json"]
    header = "Class Name (str),Class ID (int),Coarse Class Name (str)\n"
    for number, text in enumerate(
        ("", "1\n", "x y z\n1 2\n", header + "a\n", header + "a,1,b\nc,x\n", "{}", "\0")
    ):
        root = tmp_path / f"{name}{number}"
        grow(root, "images/x/1.png", "train/a/1.png", "images_background/A/c/1.png", "train_val2018/1.png")
        (root / "Eval").mkdir()
        for file in lists:
            (root / file).write_text(text)
        for layout in (None, name):
            with contextlib.suppress(LookalikeError):
                read(root, layout=layout)


def test_labels_that_are_not_whole_numbers_are_refused(tmp_path):
    for labels in ([0.5, 1.0], [float("nan"), 0.0], ["a", "b"]):
        with pytest.raises(DataError, match="labels"):
            LabeledImages(tmp_path, ("1", "2"), np.array(labels), ("a", "b"))
    big_endian = LabeledImages(tmp_path, ("1", "2"), np.array([0, 1], ">i4"), ("a", "b"))
    assert big_endian.labels.tolist() == [0, 1]


def test_the_callers_arrays_stay_writable(tmp_path):
    labels, split, role = np.array([0, 1]), np.array(["train", "test"]), np.array(["both", "query"])
    table = LabeledImages(tmp_path, ("1", "2"), labels, ("a", "b"), split=split, role=role)
    for own, mine in ((table.labels, labels), (table.split, split), (table.role, role)):
        assert mine.flags.writeable
        assert not own.flags.writeable


def test_an_unknown_layout_is_named():
    with pytest.raises(LookalikeError, match="unknown layout"):
        look_up(LAYOUTS, "cubs", "layout")
