"""docs/losses.md: every loss is in it, its code runs, its numbers are the tested ones."""

import re
from pathlib import Path

import pytest

from lookalike.losses import LOSSES
from lookalike.losses.proxy_init import PROXY_INITS

from .test_memory import KEPT

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*LOSSES, *PROXY_INITS])
def test_every_name_is_explained(name):
    assert f"`{name}`" in PAGE


def test_its_code_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})


@pytest.mark.parametrize("name", KEPT)
def test_memory_is_stated_as_tested(name):
    (row,) = [
        line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line and "P·D" in line
    ]
    dense, chunked = KEPT[name]
    cells = [cell.strip() for cell in row.split("|")]
    assert float(cells[3].split(",")[0]) == dense
    if cells[4]:
        assert float(cells[4]) == chunked
