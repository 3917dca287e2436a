"""JSON files that are one document are tables: arrays of objects, and COCO annotations."""

import json

import pytest

from lookalike.data.read import read
from lookalike.errors import DataError
from toys import photo_folders


@pytest.fixture
def photos(tmp_path):
    return photo_folders(tmp_path / "photos", classes=4, each=2)


def coco(files, *, boxes=None):
    """Annotations with one object per file, or with those of `boxes`, of the category of the file's folder."""
    annotations = [
        {"id": at, "image_id": row, "category_id": int(file[0]) + 1, **({"bbox": box} if box else {})}
        for at, (row, file, box) in enumerate(
            (row, file, box) for row, file in enumerate(files) for box in boxes or [None]
        )
    ]
    return {
        "info": {},
        "images": [{"id": row, "file_name": file} for row, file in enumerate(files)],
        "categories": [{"id": n + 1, "name": f"thing {n}"} for n in range(4)],
        "annotations": annotations,
    }


FILES = [f"{c}/{n}.png" for c in range(4) for n in range(2)]


def test_an_array_of_objects_is_a_table(photos):
    rows = [{"path": file, "label": int(file[0]), "tags": ["x"]} for file in FILES]
    (photos / "rows.json").write_text(json.dumps(rows))
    table = read(photos / "rows.json")
    assert (list(table.paths), table.class_names) == (FILES, ("0", "1", "2", "3"))
    (photos / "rows.json").write_text("\n".join(map(json.dumps, rows)))  # as some call JSON lines
    assert read(photos / "rows.json").digest() == table.digest()


def test_annotations_without_boxes_are_whole_images(photos):
    (photos / "_annotations.coco.json").write_text(json.dumps(coco(FILES)))
    table = read(photos / "_annotations.coco.json")
    assert (list(table.paths), table.boxes) == (FILES, None)
    assert [table.class_names[label] for label in table.labels] == [f"thing {file[0]}" for file in FILES]


def test_every_box_is_an_image_in_the_folder_next_to_the_annotations(photos):
    (photos.parent / "annotations").mkdir()
    file = photos.parent / "annotations" / "instances.json"
    file.write_text(json.dumps(coco(FILES, boxes=[[-0.4, 1.6, 20, 30.2], [30, 30, 0.2, 0.2]])))
    table = read(file)
    assert table.boxes.tolist()[:2] == [[0, 2, 20, 32], [30, 30, 31, 31]]
    assert table.file(0).resolve() == photos / "0" / "0.png"
    (photos.parent / "annotations" / "instances.json").write_text(json.dumps(coco(["0/nowhere.png"])))
    with pytest.raises(DataError, match="1 of 1 images are missing"):
        read(file)


def test_annotations_next_to_images_are_spoken_of(photos):
    (photos / "annotations").mkdir()
    (photos / "annotations" / "instances.json").write_text(json.dumps(coco(FILES)))
    assert any(
        "the annotations annotations/instances.json were not read; name" in note
        for note in read(photos).notes
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "neither an array of objects such as {path, label} nor COCO"),
        ("[1, 2]", "neither an array"),
        ("[]", "the table has no rows"),
        ("", "it is not JSON"),
        ('{"path": ', "it is not JSON"),
        ("[" * 100_000, "recursion"),
        ('{"images": [], "annotations": []}', "the table has no rows"),
        ('{"images": [{"id": 1}], "annotations": []}', "COCO annotations lack 'file_name'"),
        ('{"images": 3, "annotations": []}', "COCO annotations are damaged .TypeError"),
        ('{"images": [], "annotations": [{"image_id": 2, "category_id": 1}]}', "lack the image 2"),
        ('[{"path": 1e400, "label": 2}]', "1 of 1 images are missing"),
        ('[{"path": "x.png", "label": null}]', "row 1 has no 'label'"),
    ],
)
def test_what_is_no_table_says_why(tmp_path, text, message):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "x.json")
