from pathlib import Path

import polars as pl
import pytest
from photo_table import PHOTOS, describe

from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.written_tables import write_table
from lookalike.data.registry import known_datasets
from lookalike.errors import DataError, FileError, UnknownNameError


class TestFolder:
    def test_class_is_the_folder(self, photos):
        table = read(photos)
        assert describe(table) == PHOTOS
        assert (table.name, table.split, table.root) == ("photos", None, photos)

    def test_nested_folders_are_one_class_each(self, tmp_path, image):
        for path in ("birds/owl/1.jpg", "birds/hawk/1.jpg", "birds/2.jpg", "cats/1.jpg"):
            image(tmp_path / "d" / path)
        assert read(tmp_path / "d").class_names == ("birds", "birds/hawk", "birds/owl", "cats")

    def test_classes_and_files_count_naturally(self, tmp_path, image):
        for path in ("10/b10.jpg", "9/a.jpg", "10/b9.jpg"):
            image(tmp_path / "d" / path)
        table = read(tmp_path / "d")
        assert table.class_names == ("9", "10")
        assert table.paths == ("9/a.jpg", "10/b9.jpg", "10/b10.jpg")

    def test_train_and_test_folders_are_the_split(self, tmp_path, image):
        for path in ("Train/a/1.jpg", "Train/b/1.jpg", "val/c/1.jpg", "test/d/1.jpg"):
            image(tmp_path / "d" / path)
        table = read(tmp_path / "d")
        assert table.class_names == ("a", "b", "c", "d")
        assert table.split.tolist() == ["test", "train", "train", "validation"]

    def test_a_class_called_test_next_to_others_is_a_class(self, tmp_path, image):
        for path in ("test/1.jpg", "crash/1.jpg"):
            image(tmp_path / "d" / path)
        table = read(tmp_path / "d")
        assert (table.class_names, table.split) == (("crash", "test"), None)

    def test_litter_is_ignored_and_odd_suffixes_count(self, photos, image):
        for name in ("._1.jpg", ".DS_Store", "Thumbs.db", "notes.txt", "@eaDir/1.jpg", ".hidden/1.jpg"):
            (photos / "ant" / name).parent.mkdir(exist_ok=True)
            (photos / "ant" / name).write_bytes(b"\xff\xd8\xff")
        (photos / "__MACOSX" / "x").mkdir(parents=True)
        (photos / "__MACOSX" / "x" / "1.jpg").touch()
        assert describe(read(photos)) == PHOTOS
        for name in ("4.JPEG", "5.JPG", "6.jfif", "7.webp", "8"):
            image(photos / "ant" / "x.jpg").rename(photos / "ant" / name)
        (photos / "ant" / "README").write_text("no image")
        assert len(read(photos)) == 11

    def test_folders_without_use_say_what_to_do(self, tmp_path, image):
        with pytest.raises(DataError, match="holds no images; expected"):
            read(tmp_path)
        image(tmp_path / "d" / "only" / "1.jpg")
        with pytest.raises(DataError, match="all 1 images are of one class, 'only'"):
            read(tmp_path / "d")
        image(tmp_path / "d" / "loose.jpg")
        with pytest.raises(DataError, match=r"1 images lie outside class folders, first loose\.jpg"):
            read(tmp_path / "d")
        assert read(tmp_path / "d", labeled=False).class_names == (".", "only")

    def test_links_in_a_circle_are_refused(self, photos):
        (photos / "bee" / "up").symlink_to(photos)
        with pytest.raises(FileError, match="a link that leads back to"):
            read(photos)

    def test_names_beyond_ascii(self, tmp_path, image):
        for path in ("фото/кот 1.jpg", "e\u0301/1.jpg", 'quo"te/new\nline.jpg'):
            image(tmp_path / "d" / path)
        table = read(tmp_path / "d")
        assert all(table.file(i).is_file() for i in range(3))


class TestTable:
    def write(self, photos, suffix, **columns):
        frame = pl.DataFrame({"path": [p for p, _ in PHOTOS], "label": [c for _, c in PHOTOS], **columns})
        file = photos / f"list{suffix}"
        if suffix == ".parquet":
            frame.write_parquet(file)
        elif suffix == ".jsonl":
            frame.write_ndjson(file)
        else:
            frame.write_csv(file, separator="\t" if suffix == ".tsv" else ",")
        return file

    @pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
    def test_every_format_with_every_column(self, photos, suffix):
        file = self.write(
            photos,
            suffix,
            split=["train"] * 3 + ["test"] * 3,
            is_query=[False, False, False, True, False, True],
            is_gallery=[False, False, False, False, True, True],
            super_class=["insect"] * 5 + ["mammal"],
            camera=[1, 2, 3, 4, 5, 6],
        )
        table = read(file)
        assert describe(table) == PHOTOS
        assert table.split.tolist() == ["train"] * 3 + ["test"] * 3
        assert table.role.tolist() == ["both"] * 3 + ["query", "gallery", "both"]
        assert [(c.name, c.class_names, c.parents.tolist()) for c in table.coarse] == [
            ("super_class", ("insect", "mammal"), [0, 0, 1])
        ]
        again = photos / f"again{suffix}"
        write_table(table, again)
        assert read(again).digest() == table.digest()

    @pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
    @pytest.mark.parametrize("dtype", [pl.Int64, pl.Int32, pl.UInt8, pl.Float64])
    def test_numbers_as_labels_keep_their_names_and_order(self, photos, suffix, dtype):
        file = self.write(photos, suffix, label=pl.Series([17, 17, 200, 3, 3, 3], dtype=dtype))
        table = read(file)
        names = ("3", "17", "200") if dtype != pl.Float64 or suffix != ".csv" else ("3.0", "17.0", "200.0")
        assert table.class_names == names
        assert table.labels.tolist() == [1, 1, 2, 0, 0, 0]

    def test_absolute_paths(self, photos, tmp_path):
        file = self.write(photos, ".csv", path=[str(photos / p) for p, _ in PHOTOS])
        assert read(file).paths[0] == "ant/1.jpg"
        moved = file.rename(tmp_path / "elsewhere.csv")
        assert read(moved).file(0) == photos / "ant/1.jpg"

    def test_quoted_paths(self, tmp_path, image):
        names = ["a,b.jpg", 'quo"te.jpg', "new\nline.jpg"]
        for name in names:
            image(tmp_path / "d" / name)
        pl.DataFrame({"path": names, "label": ["x", "y", "y"]}).write_csv(tmp_path / "d" / "t.csv")
        assert list(read(tmp_path / "d" / "t.csv").paths) == names

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"label": ["a", "b", None, "c", "c", "c"]}, "line 4 has no 'label'"),
            (
                {"path": ["ant/1.jpg", "ant/1.jpg", "x", "y", "z", "w"]},
                r"line 3 lists ant/1\.jpg a second time, after line 2",
            ),
            (
                {"path": ["ant/1.jpg", "a", "b", "c", "d", "e"]},
                "5 of 6 images are missing .* first a; correct",
            ),
            ({"label": [0, 1, 2, -1, 2, 2]}, r"line 5 \(bee/1\.jpg\) has label -1; negative labels"),
            ({"split": ["train"] * 5 + ["later"]}, "line 7 has split 'later'; expected train"),
            ({"is_query": [True] * 6}, "the column 'is_gallery' is missing"),
            ({"is_query": [False] * 6, "is_gallery": [False] * 6}, "line 2 is neither query nor gallery"),
            ({"is_query": ["maybe"] * 6, "is_gallery": [True] * 6}, "line 2 has is_query 'maybe'"),
            ({"coarse": ["x", "x", "y", "z", "z", "z"]}, "line 4 puts class 'ant' into coarse 'y'"),
            ({"label": ["one"] * 6}, "all 6 images are of one class, 'one'"),
        ],
    )
    def test_a_bad_row_is_named(self, photos, columns, message):
        with pytest.raises(DataError, match=message):
            read(self.write(photos, ".csv", **columns))

    def test_a_file_that_is_no_such_table(self, tmp_path):
        (tmp_path / "a.csv").write_text("path,lable\nx.jpg,1\n")
        with pytest.raises(DataError, match="no column 'label'; did you mean 'lable'"):
            read(tmp_path / "a.csv")
        (tmp_path / "b.csv").write_text("path,label\nx.jpg,1\ny.jpg,1,2,3\n")
        (tmp_path / "c.parquet").write_bytes(b"nothing")
        (tmp_path / "d.csv").write_text("")
        for name in ("b.csv", "c.parquet", "d.csv"):
            with pytest.raises(DataError, match=f"{name}: cannot be read as a table"):
                read(tmp_path / name)
        (tmp_path / "e.csv").write_text("path,label\n")
        with pytest.raises(DataError, match="the table has no rows"):
            read(tmp_path / "e.csv")
        (tmp_path / "f.xlsx").touch()
        with pytest.raises(DataError, match="not a folder, an archive"):
            read(tmp_path / "f.xlsx")

    def test_without_labels_for_search(self, photos):
        file = photos / "list.csv"
        pl.DataFrame({"path": [p for p, _ in PHOTOS]}).write_csv(file)
        assert read(file, labeled=False).class_names == (".",)

    def test_a_folder_with_one_table_is_that_table(self, photos):
        self.write(photos, ".csv", label=["x", "y"] * 3)
        (photos / "other.csv").write_text("a,b\n1,2\n")
        assert (read(photos).class_names, read(photos).name) == (("x", "y"), "photos")
        self.write(photos, ".jsonl")
        with pytest.raises(DataError, match=r"2 tables could describe it \(list.csv, list.jsonl\); name one"):
            read(photos)


def test_an_unknown_name_lists_the_near_miss(tmp_path):
    with pytest.raises(UnknownNameError, match="no file, folder or data set 'glyhps'; did you mean 'glyphs'"):
        read("glyhps")


def test_unknown_layout(photos):
    with pytest.raises(UnknownNameError, match="unknown layout 'cars'; did you mean 'cars196'"):
        read(photos, layout="cars")
    with pytest.raises(DataError, match="does not look like cars196"):
        read(photos, layout="cars196")


def test_the_table_in_the_documentation_can_be_read(tmp_path, image):
    page = (Path(__file__).parents[2] / "docs" / "reference" / "data_formats.md").read_text(encoding="utf-8")
    (tmp_path / "parts.csv").write_text(page.split("```\n")[1], encoding="utf-8")
    for name in ("img/1.jpg", "img/2.jpg"):
        image(tmp_path / name)
    table = read(tmp_path / "parts.csv")
    assert describe(table) == [("img/1.jpg", "A-17"), ("img/2.jpg", "B-2")]
    assert table.splits() == ("train", "test")
    assert table.coarse[0].class_names == ("bolt", "nut")


def test_a_reader_is_added_as_its_page_says(tmp_path, image, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "add_a_reader.md").read_text(encoding="utf-8")
    monkeypatch.setattr("lookalike.data.readers.LAYOUTS", layouts := dict(LAYOUTS))
    monkeypatch.setattr("lookalike.data.read.LAYOUTS", layouts)
    monkeypatch.setattr("lookalike.data.registry.LAYOUTS", layouts)
    exec(compile(page.split("```python\n")[1].split("```")[0], "add_a_reader.md", "exec"), {})
    for name in ("1.jpg", "2.jpg"):
        image(tmp_path / "d" / name)
    (tmp_path / "d" / "labels.txt").write_text("1.jpg owl\n2.jpg ant\n")
    assert describe(read(tmp_path / "d")) == [("1.jpg", "owl"), ("2.jpg", "ant")]
    assert read(tmp_path / "d", layout="listed").name == "listed"
    assert "listed" in {row["name"] for row in known_datasets()}
    (tmp_path / "d" / "labels.txt").write_text("1.jpg owl\n2.jpg\n")
    with pytest.raises(DataError, match="line 2 is not 'IMAGE CLASS'"):
        read(tmp_path / "d")
