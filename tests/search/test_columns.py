"""Columns of tables: which are numbers, and that no value loses a digit on its way through the database."""

import pytest

from lookalike.data.read import read
from lookalike.search.build import build_index
from lookalike.search.columns import read_columns
from lookalike.search.image_search import SearchOptions, search_images


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["1", "-2", "+3"], "number", [1, -2, 3]),
        (["1.5", "2", "1e3"], "number", [1.5, 2, 1000]),
        (["1", "", "nan"], "number", [1, None, None]),
        (["nan", "", "nan"], "text", ["nan", None, "nan"]),
        (["1", "inf", "2"], "text", ["1", "inf", "2"]),
        (["1", "1e999", "2"], "text", ["1", "1e999", "2"]),
        (["007", "7", "8"], "text", ["007", "7", "8"]),
        (["0", "-0", "0.5"], "number", [0, 0, 0.5]),
        (["1_0", "2", "3"], "text", ["1_0", "2", "3"]),
        (["1234567890123456781", "1234567890123456782", "1"], "number", None),
        (["12345678901234567890", "1", "2"], "text", None),
        (["1" + "0" * 5000, "1", "2"], "text", None),
        (["true", "false", "true"], "text", ["true", "false", "true"]),
        (["2020-01-01", "", "x"], "text", ["2020-01-01", None, "x"]),
        (["\u0663", "1", "2"], "text", ["\u0663", "1", "2"]),
    ],
)
def test_values_come_back_as_they_were_written(model, photos, tmp_path, texts, kind, values):
    paths = sorted(path.name for path in (photos / "dog").iterdir())
    table = tmp_path / "list.csv"
    rows = [f"photos/dog/{path},a,{text}" for path, text in zip(paths, texts, strict=True)]
    table.write_text("\n".join(["path,label,v", *rows]) + "\n", encoding="utf-8")
    found = read_columns(table, read(table, labeled=False))
    assert found.kinds["v"] == kind
    assert found.columns["v"] == (values or [int(text) if kind == "number" else text for text in texts])
    build_index(model, table, tmp_path / "index", device="cpu")
    text = f'"{texts[0]}"' if kind == "text" else texts[0]
    (hits,) = search_images(
        tmp_path / "index", [photos / "dog" / paths[0]], SearchOptions(where=f"v = {text}"), device="cpu"
    )
    assert "photos/dog/" + paths[0] in {f"photos/dog/{hit.file.name}" for hit in hits.hits}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("colour = ''", ["1"]),
        ("colour != red", ["1", "2"]),
        ("not colour = red", ["1", "2"]),
        ("colour in ('', blue)", ["1", "2"]),
        ("label = ''", ["2"]),
        ("year != 2000", ["2"]),
    ],
)
def test_an_empty_text_is_a_value_and_a_missing_number_is_none(model, photos, tmp_path, where, found):
    rows = ["0 x.png,a,red,2000", "1 x.png,a,,", "2 x.png,,blue,2001"]
    table = photos / "dog" / "list.csv"
    table.write_text("\n".join(["path,label,colour,year", *rows]) + "\n", encoding="utf-8")
    report = build_index(model, table, tmp_path / "index", device="cpu")
    assert "list.csv: 1 images have no label (first: line 4)" in report.notes
    query = photos / "dog" / "0 x.png"
    (hits,) = search_images(tmp_path / "index", query, SearchOptions(where=where), device="cpu")
    assert sorted(hit.path[0] for hit in hits.hits) == found
