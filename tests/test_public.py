"""The public door: what it names exists, is sorted, and costs nothing until used."""

import subprocess
import sys

import lookalike


def test_every_name_can_be_imported():
    for name in lookalike.__all__:
        assert getattr(lookalike, name) is not None


def test_names_are_functions_or_classes_and_not_hidden_by_modules():
    for name in lookalike.__all__:
        assert name == "LOSSES" or callable(getattr(lookalike, name)), name


def test_import_loads_nothing_heavy():
    code = "import sys, lookalike; print([m for m in ('torch', 'numpy', 'timm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
