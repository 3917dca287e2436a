"""Tables of every dialect become the same columns."""

import json

import polars as pl
import pytest

from lookalike.data.readers.frames import read_frame
from lookalike.data.readers.write_frame import write_frame
from lookalike.errors import DataError

ROWS = [("a/1.jpg", "ant"), ("b 2.jpg", "bee, wild"), ("ü.jpg", "7")]


def comma(rows, sign=","):
    return "".join(
        sign.join(f'"{v}"' if sign in v else v for v in row) + "\n" for row in [("path", "label"), *rows]
    )


DIALECTS = {
    "plain.csv": comma(ROWS).encode(),
    "semicolon.csv": comma(ROWS, ";").encode(),
    "tab_in_csv.csv": comma(ROWS, "\t").encode(),
    "bar.csv": comma(ROWS, "|").encode(),
    "tab.tsv": comma(ROWS, "\t").encode(),
    "mark.csv": b"\xef\xbb\xbf" + comma(ROWS).encode(),
    "utf16.csv": comma(ROWS).encode("utf-16"),
    "windows.csv": comma(ROWS).replace("\n", "\r\n").encode(),
    "old_mac.csv": comma(ROWS).replace("\n", "\r").encode(),
    "excel.csv": b"sep=;\r\n" + comma(ROWS, ";").replace("\n", "\r\n").encode(),
    "blank_rows.csv": comma(ROWS).replace("\n", "\n\n,\n").encode(),
    "trailing.csv": comma(ROWS).replace("\n", ",,\n").encode(),
    "spaces.csv": comma(ROWS).replace("path,label", " path , label ").replace(",ant", ", ant").encode(),
    "no_end.csv": comma(ROWS).strip().encode(),
    "lines.jsonl": "\n".join(json.dumps({"path": p, "label": c}) for p, c in ROWS).encode(),
    "ascii.jsonl": "\n\n".join(
        json.dumps({"path": p, "label": c}, ensure_ascii=True) for p, c in ROWS
    ).encode(),
    "mixed.jsonl": "\n".join(
        json.dumps({"path": p, "label": 7.0 if c == "7" else c}) for p, c in ROWS
    ).encode(),
}


HEADER_AND_ROWS = {
    "plain.csv": ("path,label\n1,a\n2,b\n3,c\n", ["line 2", "line 3", "line 4"]),
    "tabs.tsv": ("path\tlabel\n1\ta\n2\tb\n3\tc\n", ["line 2", "line 3", "line 4"]),
    "blank lines.csv": ("\npath,label\n\n1,a\n,,\n2,b\n\n\n3,c", ["line 4", "line 6", "line 9"]),
    "lines in cells.csv": ('path,"la\nbel"\n1,"a\n\nb"\n2,b\n3,"c\n"\n', ["line 3", "line 6", "line 7"]),
    "excel.csv": ("sep=;\r\npath;label\r\n1;a\r\n2;b\r\n3;c\r\n", ["line 3", "line 4", "line 5"]),
    "old mac.csv": ("path,label\r1,a\r2,b\r3,c\r", ["line 2", "line 3", "line 4"]),
    "objects.jsonl": ('{"path": 1}\n\n{"path": 2}\n{"path": 3}\n', ["line 1", "line 3", "line 4"]),
    "array.json": ('[{"path": 1},\n\n{"path": 2}, {"path": 3}]', ["row 1", "row 2", "row 3"]),
}


@pytest.mark.parametrize("name", HEADER_AND_ROWS)
def test_a_place_in_a_text_file_is_the_line_that_an_editor_shows(tmp_path, name):
    text, places = HEADER_AND_ROWS[name]
    (tmp_path / name).write_bytes(text.encode())
    frame = read_frame(tmp_path / name)
    assert (frame.columns["path"], [frame.place(at) for at in range(3)]) == (["1", "2", "3"], places)


def test_a_place_in_parquet_is_the_row_counted_from_1(tmp_path):
    pl.DataFrame({"path": ["1", "2"]}).write_parquet(tmp_path / "t.parquet")
    assert read_frame(tmp_path / "t.parquet").where(1) == f"{tmp_path / 't.parquet'}: row 2"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_reads_alike(tmp_path, name):
    (tmp_path / name).write_bytes(DIALECTS[name])
    frame = read_frame(tmp_path / name)
    labels = [label.strip() for label in frame.columns["label"]]
    assert list(zip(frame.columns["path"], labels, strict=True)) == ROWS


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("limit", [40, 90, 1 << 20])
def test_the_head_of_every_dialect_has_the_same_columns_and_no_rows(tmp_path, monkeypatch, name, limit):
    monkeypatch.setattr("lookalike.data.readers.text_content.HEAD", limit)
    (tmp_path / name).write_bytes(DIALECTS[name])
    head, whole = read_frame(tmp_path / name, head=True), read_frame(tmp_path / name)
    assert (list(head.columns), len(head)) == (list(whole.columns), 0)


def test_the_head_is_read_without_the_rest(tmp_path):
    with open(tmp_path / "x.csv", "wb") as stream:
        stream.write(b"path,label\n" + b"1,2\n" * 300_000 + b"1,2,3\n")
        stream.truncate(1 << 40)  # a sparse file of a terabyte
    assert list(read_frame(tmp_path / "x.csv", head=True).columns) == ["path", "label"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "values",
    [["plain"], [" space ", "a,b"], ['quo"te', "new\nline"], ["tab\there", "return\r"], ["7", "07", "7.0"]],
)
def test_what_is_written_is_read_back(tmp_path, suffix, values):
    columns = {"path": values, "label": list(reversed(values))}
    write_frame(columns, tmp_path / f"x{suffix}")
    assert read_frame(tmp_path / f"x{suffix}").columns == columns


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_names_that_are_not_utf8_are_written_and_read_back(tmp_path, suffix):
    columns = {"path": ["caf\udce9/1.jpg"], "label": ["caf\udce9"]}
    write_frame(columns, tmp_path / f"x{suffix}")
    assert read_frame(tmp_path / f"x{suffix}").columns == columns
    with pytest.raises(DataError, match=r"write \.csv or \.jsonl"):
        write_frame(columns, tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "it is empty"),
        ("b.csv", b"path,label\nx,1\ny,1,2,3\n", "line 3 has 4 values, the header 'path,label' has 2"),
        ("d.csv", b"PK\x03\x04more", "it is a spreadsheet or zip archive"),
        ("d.csv", b"\xd0\xcf\x11\xe0\xa1\xb1", "it is a spreadsheet"),
        ("d.csv", b"\x1f\x8b\x08\0", "it is compressed by gzip"),
        ("d.tsv", b"PAR1", "it is Parquet; call it .parquet"),
        ("d.csv", b"SQLite format 3\0", "it is a database"),
        ("d.csv", b"{\\rtf1 x}", "it is a text document"),
        ("e.csv", "path,label\nx,1\n".encode("utf-16-le"), "NUL bytes"),
        ("f.jsonl", b'{"path": "x"}\n{"path": \n', "line 2 is not JSON"),
        ("g.jsonl", b'["path"]\n', "holds one JSON array; call it .json"),
        ("h.parquet", b"nothing", "cannot be read as a table"),
        ("i.csv", b"# by a tool\npath,label\nx,1\n", "the header '# by a tool' has 1; remove what stands"),
        ("j.csv", b" <html>Sign in</html>", "it holds HTML"),
        ("k.csv", b'[{"path": "x"}]', r"it holds JSON; call it \.json, or \.jsonl"),
        ("l.csv", b'path,label\nx,"1\ny,2\nz,3\n', "a quotation mark in line 2 is not closed"),
        ("l.csv", b'"path,label\ny,2\nz,3\n', "a quotation mark in the header is not closed"),
        ("m.csv", b"path,label\nx," + b"1" * 140_000, "a value has more than 131,072 characters"),
        ("n.csv", b"path,label" + b",c" * 10_000 + b"\nx,1\n", "it has 10,002 columns"),
        ("o.jsonl", json.dumps({f"c{i}": 1 for i in range(10_001)}).encode(), "it has 10,001 columns"),
        ("p.jsonl", b'{"path": "x"}\n{"path": "' + b"1" * (1 << 24) + b'"}', "line 2 has more than 16 MB"),
    ],
)
def test_what_is_no_table_says_why(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_frame(tmp_path / name)


@pytest.mark.parametrize(
    "header", ["path,label,label", "path,label,Label", "PATH,path,label", "label,path,label"]
)
def test_a_column_that_counts_stands_in_the_header_once(tmp_path, header):
    (tmp_path / "x.csv").write_text(f"{header}\n1,2,3\n")
    frame = read_frame(tmp_path / "x.csv")
    with pytest.raises(DataError, match=r"the column '(path|label)' appears twice in the header"):
        [frame.find(name) for name in ("path", "label")]


def test_other_columns_may_have_one_name(tmp_path):
    (tmp_path / "x.csv").write_text("path,note,label,note,,note\n1,2,3,4,5,6\n")
    frame = read_frame(tmp_path / "x.csv")
    assert list(frame.columns) == ["path", "note", "label", "note (2)", "note (3)"]
    assert [frame.columns[frame.find(name)] for name in ("path", "label")] == [["1"], ["3"]]


def test_late_keys_of_json_lines_count(tmp_path):
    rows = [{"path": str(n)} for n in range(150)] + [{"path": "x", "split": "test"}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read_frame(tmp_path / "x.jsonl").columns["split"] == [None] * 150 + ["test"]


def test_columns_that_are_no_text_are_set_aside(tmp_path):
    frame = pl.DataFrame(
        {
            "path": ["x"],
            "box": [[1, 2]],
            "raw": [b"\xff\xfe"],
            "size": [{"w": 1}],
            "score": [0.5],
            "seen": [True],
        }
    )
    frame.write_parquet(tmp_path / "x.parquet")
    read = read_frame(tmp_path / "x.parquet")
    assert (set(read.columns), set(read.nested)) == ({"path", "score", "seen"}, {"box", "raw", "size"})
    (tmp_path / "x.jsonl").write_text('{"path": "x", "box": null}\n{"path": "y", "box": [1, 2]}')
    assert read_frame(tmp_path / "x.jsonl").nested == ("box",)


def test_numbers_are_written_as_people_write_them(tmp_path):
    pl.DataFrame({"label": [7.0, float("nan"), 0.5]}).write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.jsonl").write_text('{"label": 7.0}\n{"label": NaN}\n{"label": 0.5}')
    for name in ("x.parquet", "x.jsonl"):
        assert read_frame(tmp_path / name).columns["label"] == ["7", None, "0.5"]
