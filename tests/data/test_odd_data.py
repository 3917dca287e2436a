"""Exports and tables of other tools that were misread in silence, or refused without a word that helps."""

import json

import polars as pl
import pytest
from zoo import pattern

from lookalike.data.labels import notes_on_labels
from lookalike.data.read import read
from lookalike.errors import DataError

ROWS = [("ant/0.jpg", "ant"), ("ant/1.jpg", "ant"), ("bee/0.jpg", "bee"), ("bee/1.jpg", "bee")]


def save_image(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    pattern((12, 10)).save(path)
    return path


@pytest.fixture
def insects(tmp_path):
    for path, _ in ROWS:
        save_image(tmp_path / path)
    return tmp_path


def table(folder, header, *rows, name="t.csv"):
    (folder / name).write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return folder / name


def with_column(folder, column, values):
    return table(
        folder, f"path,label,{column}", *(f"{p},{c},{v}" for (p, c), v in zip(ROWS, values, strict=True))
    )


@pytest.mark.parametrize("column", ["set", "Subset", "partition", "data set", "evaluation_status"])
def test_a_column_of_words_for_parts_is_the_split(insects, column):
    data = read(with_column(insects, column, ["train", "val", "test", "test"]))
    assert data.split.tolist() == ["train", "validation", "test", "test"]
    assert f"the column {column} is read as split" in " ".join(data.notes)


@pytest.mark.parametrize(
    ("column", "values"),
    [("is_test", "0101"), ("is_train", "0101"), ("Fold", "0123"), ("Usage", "abab"), ("partition", "0120")],
)
def test_a_column_that_may_be_the_split_is_spoken_of(insects, column, values):
    data = read(with_column(insects, column, values))
    assert data.split is None
    assert f"{column} may say what is for training, but is not used" in " ".join(data.notes)


def test_boxes_in_fractions_are_not_taken_for_pixels(insects):
    rows = [f"{p},{c},0.1,0.1,0.9,0.9" for p, c in ROWS]
    with pytest.raises(DataError, match=r"line 2 has the box .* in fractions of the image; expected pixels"):
        read(table(insects, "path,label,x_1,y_1,x_2,y_2", *rows))
    whole = [f"{p},{c},0,0,1,1" for p, c in ROWS]
    assert read(table(insects, "path,label,x_1,y_1,x_2,y_2", *whole)).boxes.tolist() == [[0, 0, 1, 1]] * 4


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ({"category_id": 1, "bbox": [0.1, 0.1, 0.5, 0.5]}, "is in fractions of the image, not in pixels"),
        ({"caption": "an ant"}, "its COCO annotations lack 'category_id'"),
    ],
)
def test_annotations_that_cannot_be_meant_are_refused(tmp_path, annotation, message):
    document = {"images": [{"id": 1, "file_name": "1.png"}], "annotations": [{"image_id": 1, **annotation}]}
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=message):
        read(tmp_path / "a.json")


def test_a_path_in_another_encoding_asks_for_utf8(tmp_path):
    for folder in ("é", "b"):
        save_image(tmp_path / folder / "0.png")
    (tmp_path / "t.csv").write_bytes("path,label\né/0.png,a\n".encode("latin-1"))
    with pytest.raises(DataError, match="save the table as UTF-8"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize("columns", ["xmin,ymin,xmax,ymax", "x1,y1,x2,y2", "x,y,w,h"])
def test_boxes_of_other_names_are_spoken_of(insects, columns):
    rows = [f"{p},{c},1,1,9,9" for p, c in ROWS]
    hint = "to cut boxes out, call their columns x_1, y_1, x_2, y_2"
    assert hint in " ".join(read(table(insects, f"path,label,{columns}", *rows)).notes)
    with pytest.raises(DataError, match=rf"line 6 lists ant/0\.jpg a second time.*{hint}"):
        read(table(insects, f"path,label,{columns}", *rows, rows[0]))


def test_a_file_in_another_class_folder_is_not_meant(insects):
    """`bee/7.jpg` is the one file called so; the table does not mean it by `ant/7.jpg`."""
    save_image(insects / "bee" / "7.jpg")
    file = table(insects, "path,label", *(f"{p},{c}" for p, c in ROWS), "ant/7.jpg,ant")
    with pytest.raises(
        DataError, match=r"1 of 5 images are missing .* first ant/7\.jpg; it could be bee/7\.jpg"
    ):
        read(file)


def test_numbers_without_their_zeros_are_pointed_out(tmp_path):
    for number in range(3):
        save_image(tmp_path / "img" / f"{number:06}.jpg")
    with pytest.raises(DataError, match=r"first 0; it could be img/000000\.jpg"):
        read(table(tmp_path, "image_id,label", "0,a", "1,b", "2,a"))


def test_an_image_as_text_is_no_path(insects):
    pl.DataFrame({"image": ["/9j/4AAQSkZJRg", "iVBORw0KGgoAAA"], "label": [0, 1]}).write_parquet(
        insects / "t.parquet"
    )
    with pytest.raises(DataError, match="row 1 has 14 characters in place of a path; images written as text"):
        read(insects / "t.parquet")


def test_of_many_columns_some_are_named(insects):
    with pytest.raises(DataError, match=r"pixel10 and 773 more\)"):
        read(table(insects, "label," + ",".join(f"pixel{i}" for i in range(784)), "1" + ",0" * 784))


def test_a_first_row_of_paths_is_no_header(insects):
    with pytest.raises(DataError, match="its first row is an image, not a header"):
        read(table(insects, "ant/0,ant", "bee/0,bee"))


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (["1.23E+11", "b"], "a class is called 1.23E+11, as spreadsheets shorten long numbers"),
        (["#REF!", "b"], "--ignore-label=#REF!"),
        (["red", "red,small"], "'red,small' looks like several labels"),
        (["red", "small|red"], "'small|red' looks like several labels"),
        (["['red', 'small']", "b"], "looks like several labels"),
        (["نحلة", "نحلة\u200f"], "differs only in case, spaces or zeros"),
    ],
)
def test_odd_class_names_are_spoken_of(names, note):
    assert note in " ".join(notes_on_labels(names))


@pytest.mark.parametrize("names", [["bolt, 3 mm", "nut, 3 mm"], ["a/b", "c"], ["E+5", "M1E+2"]])
def test_sound_class_names_are_not(names):
    assert notes_on_labels(names) == []


def test_what_annotates_images_says_that_folders_are_no_classes(tmp_path):
    for kind in ("JPEGImages", "SegmentationClass"):
        save_image(tmp_path / "voc" / "VOC2012" / kind / "1.jpg")
    (tmp_path / "voc" / "VOC2012" / "Annotations").mkdir()
    for part in ("train", "valid"):
        save_image(tmp_path / "yolo" / part / "images" / "1.jpg")
        (tmp_path / "yolo" / part / "labels").mkdir()
        (tmp_path / "yolo" / part / "labels" / "1.txt").write_text("0 .5 .5 .2 .2\n")
    for folder, name in (("voc", "Pascal VOC"), ("yolo", "YOLO")):
        with pytest.raises(DataError, match=f"annotated as {name}, which is not read; export it as COCO"):
            read(tmp_path / folder)
        assert len(read(tmp_path / folder, labeled=False)) == 2
    assert read(tmp_path / "voc", layout="folder").num_classes == 2


def test_a_folder_called_images_is_a_class_only_in_a_class(tmp_path):
    """Tiny ImageNet: train/<class>/images/1.jpg, and val/images/1.jpg with the classes in a list."""
    for path in ("train/n01/images/1.jpg", "train/n02/images/1.jpg", "val/images/1.jpg"):
        save_image(tmp_path / path)
    with pytest.raises(DataError, match=r"1 images lie outside class folders, first val/images/1\.jpg"):
        read(tmp_path)


def test_a_folder_next_to_parts_is_reported_below_one_folder(tmp_path):
    for path in ("train/good/1.jpg", "test/good/1.jpg", "test/crack/1.jpg", "ground_truth/crack/1.jpg"):
        save_image(tmp_path / "bottle" / path)
    assert "'ground_truth' is not a part" in " ".join(read(tmp_path).notes)


def test_lists_of_a_split_that_are_not_read_are_named(insects):
    (insects / "train.txt").write_text("ant/0.jpg\nbee/0.jpg\n")
    assert "the list train.txt was not read" in " ".join(read(insects).notes)


def test_a_list_called_like_that_of_in_shop_is_not_its(tmp_path):
    save_image(tmp_path / "img" / "1.jpg")
    (tmp_path / "list_eval_partition.txt").write_text("000001.jpg 0\n000002.jpg 1\n000003.jpg 1\n")
    with pytest.raises(DataError, match="all 1 images are of one class"):
        read(tmp_path)


@pytest.mark.parametrize("suffix", [".tfrecord", ".mdb", ".h5", ".npz", ".pkl", ".arrow"])
def test_what_holds_images_and_is_not_read_has_a_remedy(tmp_path, suffix):
    (tmp_path / f"data{suffix}").write_bytes(b"\0" * 64)
    with pytest.raises(DataError, match="is not read; write its images as files in a folder per class"):
        read(tmp_path / f"data{suffix}")


def test_images_without_labels_say_so(tmp_path):
    content = save_image(tmp_path / "1.jpg").read_bytes()
    (tmp_path / "data").mkdir()
    pl.DataFrame({"image": [content, content], "text": ["a", "b"]}).write_parquet(
        tmp_path / "data" / "t.parquet"
    )
    with pytest.raises(DataError, match="the images have no labels; give them a column 'label'"):
        read(tmp_path / "data")


def test_a_pointer_of_git_lfs_is_no_table(tmp_path):
    (tmp_path / "t.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(DataError, match="fetch it with: git lfs pull"):
        read(tmp_path / "t.csv")
