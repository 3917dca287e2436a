"""Filters: against a slow twin in Python, and what is refused."""

import contextlib
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError, LookalikeError, UnknownNameError
from lookalike.search.where import Column, parse_where, written

COLUMNS = {
    "label": Column("label", "text"),
    "year": Column("year", "number"),
    "taken by": Column("who", "text"),
}
ROWS = [
    ("a", 2019, "x y"),
    ("b", 2020, "and"),
    ("a", 2021, "x"),
    ("barn owl", 2022.5, "it's"),
    ("17", None, None),
]


def matches(text):
    where = parse_where(text, COLUMNS)
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (label, year, who)")
    db.executemany("INSERT INTO t VALUES (?, ?, ?)", ROWS)
    found = db.execute(f"SELECT rowid - 1 FROM t WHERE {where.sql} ORDER BY rowid", where.parameters)
    rows = [row for (row,) in found]
    db.close()
    return rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("year >= 2020 and label in (a, b)", [1, 2]),
        ("label = a", [0, 2]),
        ("label == 'a'", [0, 2]),
        ("label = 17", [4]),
        ('label in ("barn owl")', [3]),
        ("label not in (a, b)", [3, 4]),
        ("not label = a and year < 2022", [1]),
        ("label = a or label = b and year > 2020", [0, 2]),
        ("(label = a or label = b) and year > 2020", [2]),
        ("`taken by` = 'it\\'s'", [3]),
        ('`taken by` = "and"', [1]),
        ("YEAR != 2020".lower(), [0, 2, 3]),
        ("year <> 2020", [0, 2, 3]),
        ("year>2022 AND year<=2022.5", [3]),
        ("year > -5", [0, 1, 2, 3]),
        ('label = "x\'; DROP TABLE t; --"', []),
        ("year < 99999999999999999999999999", [0, 1, 2, 3]),
        ("year > -1e999 and year != 9223372036854775808", [0, 1, 2, 3]),
    ],
)
def test_a_filter_selects_its_rows(text, rows):
    assert matches(text) == rows


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("yaer > 3", UnknownNameError, "did you mean 'year'"),
        ("year > old", ArgumentError, "holds numbers; 'old' is none"),
        ("year >", ArgumentError, "expected a value at the end"),
        ("year", ArgumentError, "expected =, !=, <"),
        ("year > 3 label = a", ArgumentError, "expected 'and', 'or' or the end at 'label'"),
        ("label in (a", ArgumentError, r"expected '\)'"),
        ("label in ()", ArgumentError, "expected a value"),
        ("label = 'a", ArgumentError, "missing quote"),
        ("label ~ a", ArgumentError, "expected ="),
        ("1; DROP TABLE files", UnknownNameError, "unknown column"),
        ("(" * 1000 + "year > 3" + ")" * 1000, ArgumentError, "within each other"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text, error, words):
    with pytest.raises(error, match=words):
        matches(text)


@given(st.text(alphabet="label year()<>=!,'\"`\\ andornti17\0é", max_size=40))
def test_no_text_reaches_the_database_unparsed(text):
    with contextlib.suppress(LookalikeError):
        matches(text)


@pytest.mark.parametrize(
    "name",
    [
        "year",
        "Größe",
        "bought on",
        "price €",
        'owner\'s "name"',
        "back`tick",
        'a`\\b"',
        "in",
        "NOT",
        "a,b",
        " x",
        "3",
    ],
)
def test_a_column_of_any_name_can_be_written(name):
    parsed = parse_where(f"{written(name)} = 3", {name: Column("c0", "number")})
    assert (parsed.sql, parsed.parameters) == ("(((c0 = ?)))", (3,))


@pytest.mark.parametrize("text", ["bought on >= 2024-05-01", "in stock = true", "not in stock = true"])
def test_a_column_with_blanks_that_stands_bare_is_answered_with_how_to_write_it(text):
    columns = {name: Column("c0", "text") for name in ("bought on", "in stock", "other")}
    with pytest.raises(ArgumentError, match=r"blanks as `(bought on|in stock)`$"):
        parse_where(text, columns)
