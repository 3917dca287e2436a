"""A header and rows of cells as CSV for spreadsheets and as LaTeX for papers."""

import csv
import io
from collections.abc import Sequence

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "±": "$\\pm$",
    }
)


def to_csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The cells as CSV: a mean and the half of its interval ("70.1 ± 0.4") are two columns, "-" is an empty cell."""
    spread = [any(" ± " in row[column] for row in rows) for column in range(len(header))]
    lines = [[name for name, two in zip(header, spread, strict=True) for name in _titles(name, two)]]
    lines += [
        [cell for text, two in zip(row, spread, strict=True) for cell in _cells(text, two)] for row in rows
    ]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def to_latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The cells as a `tabular` environment without packages: the first column to the left, numbers to the right."""
    lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in (header, *rows)]
    lines.insert(1, r"\hline")
    columns = "l" + "r" * (len(header) - 1)
    return "\n".join([rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}"]) + "\n"


def _titles(name: str, two: bool) -> list[str]:
    return [name, f"{name} half width"] if two else [name]


def _cells(text: str, two: bool) -> list[str]:
    mean, _, half = text.partition(" ± ")
    cells = [mean, half] if two else [text]
    return ["" if cell == "-" else cell for cell in cells]
