"""The pages about losses: every loss is explained, their code runs, their tables are those of the code."""

import re
from pathlib import Path

import pytest
import torch

from lookalike.losses import LOSSES
from lookalike.losses.proxy_init import PROXY_INITS

from .test_memory import KEPT

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference" / "losses.md").read_text(encoding="utf-8")
HOW_TO = (DOCS / "how_to" / "add_a_loss.md").read_text(encoding="utf-8")
MANY_CLASSES = (DOCS / "explanation" / "losses_for_many_classes.md").read_text(encoding="utf-8")


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)


@pytest.mark.parametrize("name", [*LOSSES, *PROXY_INITS])
def test_every_name_is_explained(name):
    start = REFERENCE.index("<!-- end -->")
    assert f"`{name}`" in REFERENCE[start:]


def test_the_references_code_runs():
    blocks = python_blocks(REFERENCE)
    assert len(blocks) == 2
    exec("\n".join(blocks), {})


def test_the_how_tos_loss_is_the_one_that_is_tested():
    block, regularizer = python_blocks(HOW_TO)
    tested = (Path(__file__).parent / "toy_loss.py").read_text(encoding="utf-8")
    code = [line for line in tested[tested.index("class ") :].splitlines() if line.strip()]
    written = [line for line in block[block.index("class ") :].splitlines() if line.strip()]
    assert written == code
    scope = {}
    exec(regularizer, scope)
    embeddings, labels = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
    plain, regularized = LOSSES["proxy_anchor"](3, 4), scope["RegularizedProxyAnchor"](3, 4)
    regularized.load_state_dict(plain.state_dict())
    with torch.no_grad():
        added = regularized(embeddings, labels) - plain(embeddings, labels)
        torch.testing.assert_close(added, 0.01 * plain.proxies.square().sum(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("name", KEPT)
def test_memory_is_stated_as_tested(name):
    (row,) = [
        line
        for line in MANY_CLASSES.splitlines()
        if line.startswith("|") and f"`{name}`" in line and "P·D" in line
    ]
    dense, chunked = KEPT[name]
    cells = [cell.strip() for cell in row.split("|")]
    assert float(cells[3].split(",")[0]) == dense
    assert float(cells[4]) == chunked
