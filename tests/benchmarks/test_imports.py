"""Benchmarks and examples, most of which no test runs, import names that the package has."""

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [file for folder in ("benchmarks", "examples") for file in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_names_that_scripts_import_exist(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lookalike"):
            module = importlib.import_module(node.module)
            for name in (alias.name for alias in node.names):
                assert hasattr(module, name) or find_spec(f"{node.module}.{name}"), (
                    f"{node.module} has no {name}"
                )
