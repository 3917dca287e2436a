"""Folders and archives as people have them: parts at any level, tables in them, odd names, links."""

import contextlib
import errno
import os
import re
import shutil
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image
from zoo import WHOLE, encoded

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.labels import label_key, similar_labels
from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.write_frame import write_frame
from lookalike.data.readers.written_tables import write_table
from lookalike.data.screen import drop_unreadable
from lookalike.data.transforms import EvalTransform
from lookalike.data.validate import check_data
from lookalike.errors import DataError, FileError, LookalikeError
from lookalike.preprocessing import Preprocessing
from lookalike.utils.validation import look_up


def grow(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(encoded("png"))
    return folder


def said(table, words):
    return any(words in note for note in table.notes)


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


class TestTables:
    def table(self, root, rows, name="list.csv"):
        write_frame({"path": [p for p, _ in rows], "label": [c for _, c in rows]}, root / name)
        return root / name

    @pytest.mark.parametrize(
        "change",
        [
            lambda p: p.replace("/", "\\"),
            lambda p: p.rpartition(".")[0],
            lambda p: p.upper(),
            lambda p: f" {p} ",
            lambda p: f"/home/bob/photos/{p}",
            lambda p: f"photos\\{p}",
            lambda p: p.rpartition("/")[2],
            lambda p: p.replace("/", "%2F").replace("a", "%61"),
        ],
    )
    def test_paths_are_completed_where_one_file_fits(self, tmp_path, change):
        root = grow(tmp_path / "d", "images/a/1.png", "images/b/2.png")
        table = read(self.table(root, [(change("a/1.png"), "x"), (change("b/2.png"), "y")]))
        assert table.paths == ("images/a/1.png", "images/b/2.png")
        assert said(table, "2 of 2 paths were completed")
        assert read(root / "list.csv", verify=False).paths == table.paths

    def test_files_that_have_gone_from_a_table_are_no_others(self, tmp_path):
        """As the index reads it, whose files may have gone."""
        root = grow(tmp_path / "d", "a/1.png", "b/2.png", "other/3.png")
        rows = [("a/1.png", "x"), ("b/2.png", "y"), ("b/3.png", "y")]
        assert read(self.table(root, rows), verify=False).paths == ("a/1.png", "b/2.png", "b/3.png")
        rows = [("1", "x"), ("2", "y"), ("4", "y")]
        assert read(self.table(root, rows), verify=False).paths == ("a/1.png", "b/2.png", "4")

    def test_composed_letters_find_decomposed_names(self, tmp_path):
        root = grow(tmp_path / "d", "e\u0301/1.png", "b/1.png")
        assert len(read(self.table(root, [("\u00e9/1.png", "x"), ("b/1.png", "y")]))) == 2

    def test_a_file_of_another_suffix_is_pointed_out(self, tmp_path):
        root = grow(tmp_path / "d", "a/1.png", "b/2.png")
        with pytest.raises(DataError, match=r"missing .* first a/1\.jpg; it could be a/1\.png; correct"):
            read(self.table(root, [("a/1.jpg", "x"), ("b/2.jpg", "y")]))

    def test_several_files_that_fit_are_not_guessed(self, tmp_path):
        root = grow(tmp_path / "d", "a/1.png", "b/1.png")
        with pytest.raises(DataError, match=r"1 of 1 images are missing .* it could be a/1.png or b/1.png"):
            read(self.table(root, [("1.png", "x")]))

    def test_the_same_file_under_two_names_is_refused(self, tmp_path):
        root = grow(tmp_path / "d", "a/1.png", "a/2.png")
        for other in (str(root / "a/1.png"), "../d/a/1.png", "a/../a/1.png", "./a/1.png"):
            with pytest.raises(DataError, match=r"line 3 lists .* a second time, after line 2"):
                read(self.table(root, [("a/1.png", "x"), (other, "y")]))

    def test_spaces_around_labels_do_not_count_and_case_is_reported(self, tmp_path):
        root = grow(tmp_path / "d", *(f"{i}.png" for i in range(4)))
        table = read(
            self.table(root, [("0.png", "cat"), ("1.png", " cat "), ("2.png", "Cat"), ("3.png", "owl")])
        )
        assert table.class_names == ("Cat", "cat", "owl")
        assert said(table, "'Cat' and 'cat'")

    def test_labels_are_left_out_on_request(self, tmp_path):
        root = grow(tmp_path / "d", *(f"{i}.png" for i in range(4)))
        file = self.table(root, [("0.png", "1"), ("1.png", "-1"), ("2.png", "2"), ("3.png", "-1")])
        with pytest.raises(DataError, match=r"line 3 \(1.png\) has label -1; .*--ignore-label=-1"):
            read(file)
        table = read(file, ignore_labels=["-1"])
        assert (table.class_names, said(table, "2 rows with label -1")) == (("1", "2"), True)

    def test_boxes_crop(self, tmp_path):
        root = grow(tmp_path / "d", "1.png", "2.png")
        columns = {"path": ["1.png", "2.png"], "label": ["a", "b"], "x_1": ["0", "2.4"], "y_1": ["0", "1"]}
        write_frame({**columns, "x_2": ["5", "9"], "y_2": ["5", "8"], "camera": ["1", "2"]}, root / "t.csv")
        table = read(root)
        assert table.boxes.tolist() == [[0, 0, 5, 5], [2, 1, 9, 8]]
        assert table.rows([1]).box(0) == (2, 1, 9, 8)
        assert said(table, "columns that are not used: camera")
        write_frame({**columns, "x_2": ["5", "1"], "y_2": ["5", "8"]}, root / "t.csv")
        with pytest.raises(DataError, match="line 3 has the box"):
            read(root / "t.csv")
        write_frame(columns, root / "t.csv")
        with pytest.raises(DataError, match="a box needs x_1, y_1, x_2 and y_2"):
            read(root / "t.csv")

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            (
                "list.csv",
                "image,class\n0.png,a\n1.png,b\n",
                r"list\.csv was not read, since its columns are called image and class; name it",
            ),
            ("meta/list.csv", "path,label\n0.png,a\n1.png,b\n", r"name it to read it: .*meta/list\.csv"),
            ("list.csv", "path,path\n0.png,a\n", r"was not read: .*'path' appears twice"),
        ],
    )
    def test_tables_that_are_not_read_are_named(self, tmp_path, name, text, message):
        root = grow(tmp_path / "d", "images/0.png", "images/1.png")
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            read(root)
        grow(root, "more/2.png")
        assert any("was not read" in note for note in read(root).notes)

    def test_folders_of_a_camera_are_spoken_of(self, tmp_path):
        roll = grow(
            tmp_path / "d", *[f"DCIM/10{n}APPLE/IMG_000{n}.JPG" for n in range(3)], "DCIM/@eaDir/x.JPG"
        )
        assert said(read(roll), "class names such as DCIM/100APPLE are those of a camera's memory card")
        grow(roll, "cats/1.png")
        assert not said(read(roll), "memory card")

    def test_decimal_commas_and_words_for_nothing(self, tmp_path):
        root = grow(tmp_path / "d", "1.png", "2.png")
        rows = "1.png;NaN;0,0;0;5,2;5\n2.png;b;0;0;4;4\n"
        (root / "t.csv").write_text("path;label;x_1;y_1;x_2;y_2\n" + rows, encoding="utf-8")
        table = read(root / "t.csv")
        assert table.boxes.tolist() == [[0, 0, 5, 5], [0, 0, 4, 4]]
        assert said(table, "read as names of classes: 'NaN'; if they mean that there is no label")

    def test_several_boxes_of_an_image_are_images_of_their_own(self, tmp_path):
        Image.fromarray(np.arange(32 * 32 * 3, dtype=np.uint32).astype(np.uint8).reshape(32, 32, 3)).save(
            tmp_path / "shelf.png"
        )
        rows = ["shelf.png,a,0,0,16,16", "shelf.png,b,16,0,32,16", "shelf.png,a,0,16,16,32"]
        header = "path,label,x_1,y_1,x_2,y_2"
        (tmp_path / "t.csv").write_text("\n".join([header, *rows]), encoding="utf-8")
        table = read(tmp_path / "t.csv")
        assert table.paths == (
            "shelf.png#box=0,0,16,16",
            "shelf.png#box=16,0,32,16",
            "shelf.png#box=0,16,16,32",
        )
        assert {table.file(row) for row in range(3)} == {tmp_path / "shelf.png"}
        images = ImageDataset(table, EvalTransform(Preprocessing(size=16, resize=16)))
        whole = np.asarray(Image.open(tmp_path / "shelf.png")).transpose(2, 0, 1)
        for (left, top, right, bottom), row in zip(table.boxes.tolist(), range(3), strict=True):
            np.testing.assert_array_equal(images[row][0], whole[:, top:bottom, left:right])
        assert drop_unreadable(table) == (table, {})
        assert not check_data(table).cases("duplicates")
        write_table(table, tmp_path / "again.csv")
        again = read(tmp_path / "again.csv")
        assert (again.paths, again.digest()) == (table.paths, table.digest())
        one, other = (
            LabeledImages(tmp_path, ("shelf.png",), [0], ("a",), boxes=[[0, 0, 16, bottom]]).image_digest()
            for bottom in (15, 16)
        )
        assert one != other
        (tmp_path / "t.csv").write_text("\n".join([header, *rows, rows[1]]), encoding="utf-8")
        with pytest.raises(
            DataError, match=r"line 5 lists shelf\.png a second time, after line 3; list each box"
        ):
            read(tmp_path / "t.csv")

    def test_a_table_that_lies_in_the_folder_is_named_with_what_it_leaves_out(self, tmp_path):
        root = grow(tmp_path / "d", "a/1.png", "b/1.png", "new/1.png")
        self.table(root, [("a/1.png", "x"), ("b/1.png", "y")])
        assert said(read(root), "read as the table list.csv; 1 images next to it are not in it")
        assert read(root, layout="folder").class_names == ("a", "b", "new")

    def test_one_table_per_part(self, tmp_path):
        root = grow(tmp_path / "d", "train/1.png", "train/2.png", "test/1.png")
        self.table(root / "train", [("1.png", "a"), ("2.png", "b")], "metadata.csv")
        self.table(root / "test", [("1.png", "c")], "metadata.csv")
        table = read(root)
        assert dict(zip(table.paths, table.split.tolist(), strict=True)) == {
            "train/1.png": "train",
            "train/2.png": "train",
            "test/1.png": "test",
        }
        flat = grow(tmp_path / "e", "images/1.png", "images/2.png", "images/3.png")
        self.table(flat, [("images/1.png", "a"), ("images/2.png", "b")], "train.csv")
        self.table(flat, [("images/3.png", "a")], "val.csv")
        assert read(flat).splits() == ("train", "validation")

    def test_a_label_that_is_not_utf8_asks_for_utf8(self, tmp_path):
        root = grow(tmp_path / "d", "1.png", "2.png")
        (root / "t.csv").write_bytes("path,label\n1.png,Käse\n2.png,Brot\n".encode("latin-1"))
        with pytest.raises(DataError, match=r"line 2 .* not UTF-8; save the table as UTF-8"):
            read(root / "t.csv")


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
