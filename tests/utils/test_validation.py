"""Argument checks: optional packages."""

import pytest

from lookalike.errors import MissingExtraError
from lookalike.utils.validation import optional_import


def test_a_missing_package_and_a_missing_dependency_of_it_are_told_apart(tmp_path, monkeypatch):
    (tmp_path / "installed_here.py").write_text("import not_installed_at_all.deep\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        MissingExtraError, match=r"^this needs the package 'nowhere': pip install 'lookalike\[x\]'$"
    ):
        optional_import("nowhere.inside", "x")
    with pytest.raises(
        MissingExtraError,
        match=r"'installed_here' is installed, but cannot be imported without 'not_installed_at_all': pip install",
    ):
        optional_import("installed_here", "x")
