"""Published numbers: digit for digit those of the papers, and a row of a study for each of them."""

import json
import os
import re
from pathlib import Path

import pytest

from lookalike.studies import STUDIES
from lookalike.studies.published import BLANK, Number, printed_tables

FILE = Path(os.environ.get("LOOKALIKE_SHARED", Path(__file__).parents[3] / "shared")) / "paper_tables.json"
PAPERS = ("proxynca_pp", "proxy_anchor", "proxy_gml", "hpl")
ALL_TABLES = {(paper, name): table for paper in PAPERS for name, table in printed_tables(paper).items()}

COLUMNS_OF = {
    "pa/T2": {"C": "cub200:recall_at_", "K": "cars196:recall_at_"},
    "pa/T5": {"cub": "cub200:recall_at_1", "cars": "cars196:recall_at_1"},
    "pa/T6": {"sop": "sop:recall_at_1", "inshop": "inshop:recall_at_1"},
    "gml/S2": {"cub": "cub200:recall_at_1", "cars": "cars196:recall_at_1", "sop": "sop:recall_at_1"},
}
"""Keys of the reference file, where they are not `r1` and the like."""
SLIDE = {"CUB": "cub200", "Cars": "cars196", "SOP": "sop", "NMI": "nmi"}
COSTS = {
    "iteration time, s": "seconds_per_iteration",
    "convergence time, h": "hours_to_convergence",
    "max GPU memory, GB": "peak_memory_gb",
}


def place(table: str) -> tuple[str, str]:
    """Paper and name of our table for a key of the reference file."""
    paper, name = table.split("/", 1)
    papers = {"pp": "proxynca_pp", "pa": "proxy_anchor", "gml": "proxy_gml", "hpl": "hpl"}
    if paper == "gml":
        return papers[paper], {"S1": "table1", "S2": "table2"}.get(name, "comparison")
    number = re.match(r"(T|Fig)(\d+)", name)
    return papers[paper], f"{'table' if number[1] == 'T' else 'figure'}{number[2]}"


def column(table: str, key: str) -> str:
    """Our column, with its group, for a key of a reference table."""
    if table in COLUMNS_OF:
        known = COLUMNS_OF[table]
        return known[key] if key in known else known[key[0]] + key[2:]
    if table.startswith("gml/main"):
        dataset, metric = key.split(" ")
        return f"{SLIDE[dataset]}:{SLIDE.get(metric, metric.replace('R@', 'recall_at_'))}"
    if re.fullmatch(r"r\d+", key):
        return f"recall_at_{key[1:]}"
    return key if key == "nmi" else f"{key}:recall_at_1"


def plain(label: str) -> str:
    """A row's label without references, signs of typesetting, and spaces."""
    label = re.sub(r"\[\d+\]|\(read through scan noise\)", "", label)
    return re.sub(r"[\s|^{}_]", "", label).lower()


def reference_cells():
    """Every cell of the reference file: table, our column, row label, value and spread."""
    if not FILE.is_file():
        return
    for table, rows in json.loads(FILE.read_text(encoding="utf-8")).items():
        if table == "gml/S1":
            for key, cells in rows.items():
                yield from ((table, COSTS[key], label, value, None) for label, value in cells.items())
            continue
        for label, cells in rows.items():
            if not isinstance(cells, dict):
                only = (
                    "complexity"
                    if table == "pa/T1"
                    else "recall_at_1"
                    if "hpl" in table
                    else "seconds_per_epoch"
                )
                cells = {only: cells}
            for key, value in cells.items():
                spread = value[1] if isinstance(value, list) else None
                ours = (
                    key if key in ("complexity", "recall_at_1", "seconds_per_epoch") else column(table, key)
                )
                yield table, ours, label, value[0] if isinstance(value, list) else value, spread


CELLS = list(reference_cells())


@pytest.mark.skipif(not CELLS, reason=f"reference values are absent: no file {FILE}")
def test_every_cell_is_the_papers():
    assert len(CELLS) > 800
    for table, ours, label, value, spread in CELLS:
        group, _, key = ours.rpartition(":")
        rows = [
            r for r in ALL_TABLES[place(table)].rows if r.group == group and plain(r.label) == plain(label)
        ]
        assert len(rows) == 1, (table, label, group)
        number = rows[0].numbers[key]
        found = number.text if isinstance(value, str) else number.value
        assert (found, number.spread) == (value, spread), (table, label, key)


@pytest.mark.skipif(not CELLS, reason=f"reference values are absent: no file {FILE}")
def test_no_cell_is_invented():
    """Tables of the reference file have no further cells."""
    for table in {cell[0] for cell in CELLS}:
        ours = sum(len(row.numbers) for row in ALL_TABLES[place(table)].rows)
        assert ours == sum(cell[0] == table for cell in CELLS), table


@pytest.mark.parametrize("key", ALL_TABLES, ids="/".join)
def test_all_numbers_of_a_column_have_the_same_digits(key):
    """So 88.70 is not printed as 88.7; 1.1 seconds is printed so, and slides are read to a decimal at most."""
    for column in ALL_TABLES[key].columns:
        texts = {row.numbers[column].text for row in ALL_TABLES[key].rows if column in row.numbers}
        digits = {len(text.partition("±")[0].partition(".")[2]) for text in texts if re.match(r"\d+\.", text)}
        assert len(digits - ({1} if key == ("proxy_gml", "table1") else set())) <= 1, (column, texts)


@pytest.mark.parametrize("key", ALL_TABLES, ids="/".join)
def test_every_printed_number_stands_in_the_study_of_that_number(key):
    paper, name = key
    study = STUDIES[f"{paper}/{name}"]
    missing = [row for row in ALL_TABLES[key].rows if all(row != mine.printed for mine in study.rows)]
    assert missing == []


def test_numbers_read_as_printed():
    number = Number("72.2±0.8")
    assert (number.value, number.spread, str(number)) == (72.2, 0.8, "72.2±0.8 [S]")
    assert str(Number("88.70", "P")) == "88.70 [P]"
    assert Number("O(MC)").value is None


def test_blanks_are_no_numbers():
    assert all(
        number.text != BLANK
        for table in ALL_TABLES.values()
        for row in table.rows
        for number in row.numbers.values()
    )
