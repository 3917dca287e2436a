"""Cells of CSV files that a spreadsheet would run as a formula, escaped by a single quote that readers remove.

A class may be called `=HYPERLINK(...)`. Spreadsheets show `'=HYPERLINK(...)` as text, and whoever escapes cells
does it in this way, so the quote is removed from tables of any origin.
"""

import re

_FORMULA = re.compile(r"'*[\s\x00-\x1f\u200b\ufeff]*[=+\-@＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


def is_formula(value: str) -> bool:
    """Whether a spreadsheet may run `value`, or would if quotes in front of it were removed; numbers are none."""
    return _FORMULA.match(value) is not None and _NUMBER.fullmatch(value) is None


def escape_formula(value: str) -> str:
    """`value` as a cell that is text to a spreadsheet; `unescape_formula` gives it back."""
    return "'" + value if is_formula(value) else value


def unescape_formula(cell: str) -> str:
    """The value of a cell that `escape_formula` wrote."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell
