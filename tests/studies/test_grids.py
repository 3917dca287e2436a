"""Tables of a study for spreadsheets and papers."""

import csv
import io

from lookalike.studies.grids import to_csv, to_latex

HEADER = ["row", "recall_at_1", "n", "note"]
ROWS = [
    ["-scale & 50 %", "70.1 ± 0.4", "5", 'says "a, b"'],
    ["full", "-", "0", "-"],
    ["{x}^2~\\", "71.0", "1", ""],
]


def test_csv_reads_back_with_means_and_half_widths_apart():
    found = list(csv.DictReader(io.StringIO(to_csv(HEADER, ROWS))))
    assert found[0] == {
        "row": "-scale & 50 %", "recall_at_1": "70.1", "recall_at_1 half width": "0.4", "n": "5", "note": 'says "a, b"',
    }  # fmt: skip
    assert found[1]["recall_at_1"] == found[1]["recall_at_1 half width"] == found[1]["note"] == ""
    assert found[2]["recall_at_1"] == "71.0"


def test_latex_escapes_what_is_special_there():
    assert to_latex(HEADER, ROWS).splitlines() == [
        r"\begin{tabular}{lrrr}",
        r"row & recall\_at\_1 & n & note \\",
        r"\hline",
        r'-scale \& 50 \% & 70.1 $\pm$ 0.4 & 5 & says "a, b" \\',
        r"full & - & 0 & - \\",
        r"\{x\}\textasciicircum{}2\textasciitilde{}\textbackslash{} & 71.0 & 1 &  \\",
        r"\end{tabular}",
    ]
