"""Tables as people have them: odd columns and values, boxes, labels that are missing or alike."""

import numpy as np
import pytest
from PIL import Image
from zoo import grow, said

from lookalike.data.dataset import LabeledImages
from lookalike.data.image_dataset import ImageDataset
from lookalike.data.read import read
from lookalike.data.readers.write_frame import write_frame
from lookalike.data.readers.written_tables import write_table
from lookalike.data.screen import drop_unreadable
from lookalike.data.transforms import EvalTransform
from lookalike.data.validate import check_data
from lookalike.errors import DataError
from lookalike.preprocessing import Preprocessing


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
