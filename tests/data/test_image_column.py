"""Data sets whose files hold the images: Hugging Face `datasets` on disk and Parquet, as that library writes them."""

import io
import json

import numpy as np
import polars as pl
import pytest
from PIL import Image

from lookalike.data.image_io import open_image
from lookalike.data.read import read
from lookalike.errors import DataError, LookalikeError

pytestmark = pytest.mark.usefixtures("own_cache")
NAMES = ["ash", "birch", "cedar"]
LABELS = [0, 0, 1, 1, 2, 2]
FEATURES = {"image": {"_type": "Image"}, "label": {"names": NAMES, "_type": "ClassLabel"}}


def content(shade):
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9), (shade,) * 3).save(buffer, format="PNG")
    return buffer.getvalue()


def frame(labels=LABELS, **more):
    images = [{"bytes": content(10 * row), "path": f"{row}.png"} for row in range(len(labels))]
    return pl.DataFrame({"image": images, "label": labels, **more})


def save_to_disk(folder, rows, features=FEATURES):
    """What `datasets.Dataset.save_to_disk` writes."""
    folder.mkdir(parents=True)
    rows.write_ipc_stream(folder / "data-00000-of-00001.arrow")
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": None})
    )
    return folder


def check(table, labels=LABELS):
    assert [table.class_names[label] for label in table.labels] == [NAMES[label] for label in labels]
    for row in range(len(table)):
        assert np.asarray(open_image(table.file(row)))[0, 0].tolist() == [10 * (row % len(LABELS))] * 3


def test_a_saved_dataset(tmp_path):
    table = read(save_to_disk(tmp_path / "trees", frame()))
    check(table)
    assert (table.name, table.split, table.notes) == ("trees", None, ())


def test_a_saved_dict_of_datasets_has_its_splits(tmp_path):
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    for name in ("train", "test"):
        save_to_disk(tmp_path / "trees" / name, frame())
    table = read(tmp_path / "trees")
    check(table, LABELS * 2)
    assert table.split.tolist() == ["train"] * 6 + ["test"] * 6


def test_what_the_library_itself_writes(tmp_path):
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=NAMES),
            "score": datasets.Value("float32"),
        }
    )
    images = [Image.new("RGB", (9, 9), (10 * row,) * 3) for row in range(6)]
    rows = datasets.Dataset.from_dict(
        {"image": images, "label": LABELS, "score": [0.5] * 6}, features=features
    )
    rows.save_to_disk(tmp_path / "saved")
    datasets.DatasetDict({"train": rows, "test": rows}).save_to_disk(tmp_path / "dict")
    rows.to_parquet(tmp_path / "one.parquet")
    check(read(tmp_path / "saved"))
    check(read(tmp_path / "one.parquet"))
    assert set(read(tmp_path / "dict").split) == {"train", "test"}
    shuffled = rows.shuffle(seed=0)
    shuffled.save_to_disk(tmp_path / "shuffled")
    assert sorted(read(tmp_path / "shuffled").labels) == LABELS


@pytest.mark.parametrize("place", ["", "data"])
def test_parquet_shards_are_named_after_their_split(tmp_path, place):
    (tmp_path / place).mkdir(exist_ok=True)
    for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"):
        frame().with_columns(label=pl.Series([NAMES[label] for label in LABELS])).write_parquet(
            tmp_path / place / f"{name}.parquet"
        )
    table = read(tmp_path)
    check(table, LABELS * 3)  # in the order of the files' names: test, train, train
    assert table.split.tolist() == ["test"] * 6 + ["train"] * 12


@pytest.mark.parametrize("saved", [True, False])
@pytest.mark.parametrize("place", ["", "default"])
def test_a_folder_per_split_is_read_whole(tmp_path, saved, place):
    for name in ("test", "train"):
        if saved:
            save_to_disk(tmp_path / place / name, frame())
        else:
            (tmp_path / place / name).mkdir(parents=True)
            rows = frame().with_columns(label=pl.Series([NAMES[label] for label in LABELS]))
            rows.write_parquet(tmp_path / place / name / "0000.parquet")
    table = read(tmp_path)
    check(table, LABELS * 2)
    assert table.split.tolist() == ["test"] * 6 + ["train"] * 6


def test_of_several_data_sets_in_a_folder_none_is_read_in_silence(tmp_path):
    save_to_disk(tmp_path / "trees", frame())
    (tmp_path / "photos" / "x").mkdir(parents=True)
    assert read(tmp_path).notes[0] == "read as hugging_face in trees/; not read: photos/"
    save_to_disk(tmp_path / "more", frame())
    with pytest.raises(DataError, match=r"holds 2 data sets, .*/more \(hugging_face\), .*/trees"):
        read(tmp_path)


def test_images_may_be_plain_bytes_and_labels_numbers(tmp_path):
    rows = pl.DataFrame({"image": [content(10 * row) for row in range(6)], "label": LABELS})
    rows.write_parquet(tmp_path / "trees.parquet")
    table = read(tmp_path / "trees.parquet")
    assert table.class_names == ("0", "1", "2")


def test_images_that_lie_elsewhere_stay_there(tmp_path):
    (tmp_path / "x.png").write_bytes(content(0))
    (tmp_path / "y.png").write_bytes(content(10))
    images = [{"bytes": None, "path": "x.png"}, {"bytes": None, "path": str(tmp_path / "y.png")}]
    pl.DataFrame({"image": images, "label": ["a", "b"]}).write_parquet(tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    assert [table.file(row) for row in range(2)] == [tmp_path / "x.png", tmp_path / "y.png"]


def test_coarse_and_box_columns_count_as_in_any_table(tmp_path):
    frame(coarse_kind=["leaf"] * 4 + ["needle"] * 2).write_parquet(tmp_path / "t.parquet")
    (level,) = read(tmp_path / "t.parquet").coarse
    assert level.class_names == ("leaf", "needle")


def test_labels_are_not_needed_to_search(tmp_path):
    frame().drop("label").write_parquet(tmp_path / "t.parquet")
    assert len(read(tmp_path / "t.parquet", labeled=False)) == 6
    with pytest.raises(DataError, match="label"):
        read(tmp_path / "t.parquet")


class TestDamage:
    def test_an_empty_image(self, tmp_path):
        images = [{"bytes": content(0), "path": None}, {"bytes": None, "path": None}]
        pl.DataFrame({"image": images, "label": ["a", "b"]}).write_parquet(tmp_path / "t.parquet")
        with pytest.raises(DataError, match=r"t\.parquet: row 2 has no image; remove it"):
            read(tmp_path / "t.parquet")

    def test_a_class_number_without_name(self, tmp_path):
        with pytest.raises(DataError, match="label 7 is not one of its 3 class names"):
            read(save_to_disk(tmp_path / "trees", frame([0, 0, 1, 1, 2, 7])))

    def test_a_split_that_is_none(self, tmp_path):
        for name in ("train-0", "holdout-0"):
            frame().write_parquet(tmp_path / f"{name}.parquet")
        with pytest.raises(DataError, match="'holdout' is no split; expected train"):
            read(tmp_path)

    @pytest.mark.parametrize("file", ["dataset_info.json", "state.json", "data-00000-of-00001.arrow"])
    @pytest.mark.parametrize("text", ["", "{}", "[]", "x" * 50])
    def test_damaged_files(self, tmp_path, file, text):
        folder = save_to_disk(tmp_path / "trees", frame())
        (folder / file).write_text(text)
        if (file, text) == ("dataset_info.json", "{}"):
            assert read(folder).class_names == ("0", "1", "2")  # no names are written: the numbers are
            return
        with pytest.raises(LookalikeError, match="trees"):
            read(folder)
