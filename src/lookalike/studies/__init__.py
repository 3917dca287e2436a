"""The tables and figures of the four papers, as experiments with the published numbers.

A new study is a file with a tuple `STUDIES`, named here.
"""

from lookalike.studies import hpl, other_losses, proxy_anchor, proxy_gml, proxynca_pp
from lookalike.studies.published import Number, PrintedRow, PrintedTable
from lookalike.studies.study import Figure, Recipe, Row, Study
from lookalike.utils.validation import look_up

PAPERS = (proxynca_pp, proxy_anchor, proxy_gml, hpl, other_losses)
STUDIES: dict[str, Study] = {study.id: study for paper in PAPERS for study in paper.STUDIES}
"""Every study by its id, `paper/name`, in the order of the papers."""


def find_study(name: str) -> Study:
    """The study of that id.

    Raises:
        UnknownNameError: no such study; with the near miss.
    """
    return look_up(STUDIES, name, "study")


__all__ = [
    "STUDIES",
    "Figure",
    "Number",
    "PrintedRow",
    "PrintedTable",
    "Recipe",
    "Row",
    "Study",
    "find_study",
]
