"""No cell of a CSV file that we write is a formula to a spreadsheet, and every cell reads back as it was."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.config.experiment import Experiment
from lookalike.data.read import read
from lookalike.data.readers.formulas import escape_formula, unescape_formula
from lookalike.data.readers.oml import write_oml
from lookalike.data.readers.split_files import with_split_file, write_split_file
from lookalike.data.readers.written_tables import write_removed, write_table
from toys import photo_folders

SIGNS = "=+-@＝＋－＠"
HOSTILE = [f"{before}{sign}1+1|x!A0" for sign in SIGNS for before in ("", "'", "''", "'\t")]


@pytest.mark.parametrize(
    "value", [*HOSTILE, "=cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "\t=1", " =1", "\ufeff=1"]
)
def test_a_formula_is_text_to_a_spreadsheet(value):
    assert escape_formula(value) == f"'{value}"


@pytest.mark.parametrize(
    "value", ["-1", "+5", "-0.5", "-1e-05", "-1,5", "a=b", "a-b", "", "'quoted'", "7", "nan"]
)
def test_numbers_and_other_text_are_written_as_they_are(value):
    assert escape_formula(value) == value


@given(st.text(st.sampled_from([*SIGNS, *"' \t\r\n1,.;x\ufeff"]), max_size=6) | st.text(max_size=20))
def test_what_is_escaped_is_read_back(value):
    assert unescape_formula(escape_formula(value)) == value


@pytest.fixture
def hostile(tmp_path):
    """A data set whose classes and files are formulas."""
    folder = photo_folders(tmp_path / "photos", classes=8, each=2)
    for at, sign in enumerate("=+-@"):
        named = (folder / str(at)).rename(folder / f"{sign}1+1")
        (named / "0.png").rename(named / f"{sign}2;2.png")
    (folder / "4").rename(folder / "'=1+1")
    return read(folder)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("kind", ["table", "removed", "oml", "split"])
def test_no_written_file_holds_a_formula_and_each_is_read_back(hostile, kind, suffix):
    file = hostile.root / f"written{suffix}"
    split = Experiment().split(hostile)
    parts = {"train": split.train, "validation": split.validation, "test": split.test}
    if kind == "table":
        write_table(hostile, file)
    elif kind == "removed":
        write_removed(hostile, file, ["=1+1"] * len(hostile))
    elif kind == "oml":
        write_oml(file, split)
    else:
        write_split_file(file, parts)
    with open(file, encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream, delimiter="\t" if suffix == ".tsv" else ","))
    assert len(rows) > 8
    assert not [cell for row in rows for cell in row if cell[:1] in tuple(SIGNS)]
    if kind == "split":
        assert set(with_split_file(hostile, file).splits()) == {"train", "validation", "test"}
    elif kind == "oml":
        assert set(read(file).paths) == set(hostile.paths)
    elif kind == "table":
        again = read(file)
        assert (again.paths, again.class_names, again.digest()) == (
            hostile.paths,
            hostile.class_names,
            hostile.digest(),
        )
