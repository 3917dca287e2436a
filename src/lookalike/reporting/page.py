"""Self-contained HTML pages from the templates: everything escaped, no network, no other file.

`templates/base.html` holds the one style sheet of all pages; a page extends it and fills the block `content`.
"""

from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lookalike.utils.io import write_text
from lookalike.utils.printable import printable


def render(template: str, **values: Any) -> str:
    """The page of a template."""
    loader = jinja2.PackageLoader("lookalike.reporting", "templates")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page: str = environment.get_template(template).render(**values)
    return page


def write_page(file: Path, template: str, **values: Any) -> Path:
    """Writes the page of a template, whole or not at all."""
    write_text(file, render(template, **values))
    return file


def _printable(value: Any) -> Any:
    """Texts by `printable`, anything else as it is."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value, keep="\t\n")
    return value
