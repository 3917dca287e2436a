"""Self-contained HTML pages from the templates: everything escaped, no network, no other file.

`templates/base.html` holds the one style sheet of all pages; a page extends it and fills the block `content`.
"""

import re
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lookalike.utils.io import write_text

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


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
    """Text without control characters (terminal escapes, changes of the writing direction) and lone surrogates."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNPRINTABLE.sub(
            "\N{REPLACEMENT CHARACTER}", value.encode("utf-8", "backslashreplace").decode("utf-8")
        )
    return value
