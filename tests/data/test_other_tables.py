"""Tables of other tools: Open Metric Learning in and out, and the columns of FiftyOne and CVAT."""

from urllib.parse import quote

import numpy as np
import polars as pl
import pytest

from lookalike.cli import run
from lookalike.config.experiment import Experiment
from lookalike.data.read import read
from lookalike.data.readers.oml import write_oml
from lookalike.errors import DataError
from toys import photo_folders

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return photo_folders(tmp_path_factory.mktemp("photos") / "photos", classes=10, each=3)


def test_oml_is_written_as_oml_checks_it(photos, capsys):
    """The demands of its `check_retrieval_dataframe_format`, one by one."""
    assert run(["data", "split", str(photos), "--out", str(photos / "oml.csv"), "--format", "oml"]) == 0
    frame = pl.read_csv(photos / "oml.csv", schema_overrides={"is_query": pl.String, "is_gallery": pl.String})
    assert frame.columns[:5] == ["label", "path", "split", "is_query", "is_gallery"]
    assert set(frame["split"]) == {"train", "validation"}
    assert frame["label"].dtype == pl.Int64
    for flag in ("is_query", "is_gallery"):
        assert frame.filter(split="train")[flag].is_null().all()
        assert set(frame.filter(split="validation")[flag]) == {"True"}
    assert not set(frame.filter(split="train")["label"]) & set(frame.filter(split="validation")["label"])
    assert all((photos / path).is_file() for path in frame["path"])


def test_oml_comes_back_with_the_same_test_classes(photos):
    split = Experiment().split(read(photos, layout="folder"))
    write_oml(photos / "oml.csv", split)
    table = read(photos / "oml.csv")
    back = Experiment().split(table)
    assert back.source == "named"
    assert sorted(back.test.paths) == sorted(split.test.paths)
    assert any("Open Metric Learning" in note for note in table.notes)


def test_boxes_and_roles_leave_and_come_back(photos, tmp_path):
    paths = sorted(str(file) for file in photos.glob("*/*.png"))
    rows = {"path": paths, "label": [path.split("/")[-2] for path in paths]}
    tested = [int(label) > 5 for label in rows["label"]]
    first = [path.endswith("0.png") for path in paths]
    rows |= {"split": ["test" if test else "train" for test in tested], "is_query": first}
    rows |= {"is_gallery": [not query for query in first], "x_1": [1] * 30, "y_1": [2] * 30}
    pl.DataFrame(rows | {"x_2": [30] * 30, "y_2": [40] * 30}).write_csv(tmp_path / "ours.csv")
    ours = read(tmp_path / "ours.csv")
    write_oml(tmp_path / "oml.csv", Experiment().split(ours))
    back = read(tmp_path / "oml.csv")
    assert back.boxes[0].tolist() == [1, 2, 30, 40]
    test, ours_test = (Experiment().split(table).test for table in (back, ours))
    assert dict(zip(test.paths, test.role, strict=True)) == dict(
        zip(ours_test.paths, ours_test.role, strict=True)
    )


@pytest.mark.parametrize(
    "columns",
    [
        ("filepath", "ground_truth.label"),  # FiftyOne's CSVDataset
        ("filepath", "ground_truth"),
        ("image_name", "label_name"),  # CVAT's exports as a table
        ("image", "label"),
        ("filename", "class"),
        ("ImageID", "LabelName"),  # Open Images
        ("image", "choice"),  # Label Studio
        ("image_id", "target"),  # competitions
        ("image", "label_group"),
        ("Image Path", "Species"),
    ],
)
def test_columns_of_other_tools(photos, tmp_path, columns):
    paths = sorted(str(file) for file in photos.glob("*/*.png"))
    labels = [path.split("/")[-2] for path in paths]
    pl.DataFrame({columns[0]: paths, columns[1]: labels, "tags": labels}).write_csv(tmp_path / "t.csv")
    table = read(tmp_path / "t.csv")
    assert [table.class_names[label] for label in table.labels] == labels
    assert any(f"the column {columns[0]} is read as path" in note for note in table.notes)
    assert any("not used: tags" in note for note in table.notes)


def test_a_table_of_other_columns_in_a_folder_is_named(tmp_path):
    paths = sorted(photo_folders(tmp_path / "photos", classes=3, each=2).glob("*/*.png"))
    flat = tmp_path / "flat"
    (flat / "train").mkdir(parents=True)
    rows = []
    for at, path in enumerate(paths):
        path.rename(flat / "train" / f"{at}.png")
        rows.append(f"{at},{path.parent.name}")
    for name in ("sample_submission", "train"):
        (flat / f"{name}.csv").write_text("\n".join(["image_id,label", *rows]))
    with pytest.raises(
        DataError, match=r"outside class folders.*the table train\.csv was not read, .* name it"
    ):
        read(flat)
    assert read(flat / "train.csv").num_classes == len({path.parent.name for path in paths})


@pytest.mark.parametrize("place", ["meta", "annotations", "other"])
def test_paths_may_start_at_the_folder_above_the_table(tmp_path, place):
    photos = photo_folders(tmp_path / "photos", classes=3, each=2)
    (photos / place).mkdir()
    paths = [file.relative_to(photos).as_posix() for file in sorted(photos.glob("*/*.png"))]
    pl.DataFrame({"path": paths, "label": paths}).write_csv(photos / place / "t.csv")
    table = read(photos / place / "t.csv")
    assert table.paths == tuple(f"../{path}" for path in paths)
    assert len(table.notes) == 1


@pytest.mark.parametrize("start", ["file://{}/", "file://localhost{}/"])
def test_file_addresses_are_paths(photos, tmp_path, start):
    paths = [file.relative_to(photos).as_posix() for file in sorted(photos.glob("*/*.png"))]
    where = start.format(quote(str(photos)))
    pl.DataFrame({"path": [where + quote(path) for path in paths], "label": paths}).write_csv(
        tmp_path / "t.csv"
    )
    table = read(tmp_path / "t.csv")
    assert (sorted(map(str, map(table.file, range(len(table))))), table.notes) == (
        [str(photos / path) for path in paths],
        (),
    )


def test_addresses_on_the_web_are_not_fetched(tmp_path):
    (tmp_path / "t.csv").write_text("path,label\nhttps://example.com/1.png,a\nhttps://example.com/2.png,b\n")
    with pytest.raises(
        DataError, match=r"first https://example\.com/1\.png; images at web addresses are not fetched"
    ):
        read(tmp_path / "t.csv")


def test_labels_that_are_no_text_are_refused_or_spoken_of(photos, tmp_path):
    paths = sorted(str(file) for file in photos.glob("*/*.png"))
    pl.DataFrame({"path": paths, "label": [["a", "b"]] * len(paths)}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match="'label' holds lists, objects or bytes; expected text"):
        read(tmp_path / "t.parquet")
    assert any("have no labels" in note for note in read(tmp_path / "t.parquet", labeled=False).notes)


def test_path_and_label_come_before_what_other_tools_call_them(photos, tmp_path):
    paths = sorted(str(file) for file in photos.glob("*/*.png"))
    labels = np.arange(30) % 3
    pl.DataFrame({"image": ["x"] * 30, "class": ["y"] * 30, "path": paths, "label": labels}).write_csv(
        tmp_path / "t.csv"
    )
    assert read(tmp_path / "t.csv").labels.tolist() == labels.tolist()


def test_a_list_of_files_in_a_folder_of_class_folders_does_not_replace_them(photos):
    (photos / "notes.csv").write_text("filename,class\n0/0.png,odd\n")
    (photos / "oml.csv").unlink(missing_ok=True)
    assert len(read(photos)) == 30


def test_an_unknown_format_is_named(photos, capsys):
    assert run(["data", "split", str(photos), "--format", "omel"]) == 1
    assert "format is 'omel'; did you mean 'oml'" in capsys.readouterr().err


def test_a_table_without_labels_says_what_it_has(tmp_path):
    (tmp_path / "t.csv").write_text("filepath,tags\nx.png,y\n")
    with pytest.raises(DataError, match=r"no column 'label' .*it has: filepath, tags"):
        read(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a/1.png,ant\nb/1.png,bee\n",
            "its first row is an image, not a header: put the line path,label above",
        ),
        (
            "Inventory,\nof May,\npath,label\na/1.png,ant\n",
            "line 3 looks like the header: remove what stands above",
        ),
    ],
)
def test_a_table_without_a_header_on_top_has_a_remedy(text, message, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "t.csv")
