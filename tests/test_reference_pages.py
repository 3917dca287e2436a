"""Pages that come from the code are what the code says."""

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def generated_pages():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


PAGES = generated_pages()


@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_up_to_date(path):
    assert (DOCS / path).read_text(encoding="utf-8") == PAGES[path], "run: make docs"
