"""Argument checks: optional packages."""

import pytest

from lookalike.errors import MissingExtraError
from lookalike.utils.validation import is_installed, optional_import


def test_a_missing_package_and_a_missing_dependency_of_it_are_distinguished(tmp_path, monkeypatch):
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


def test_the_folder_of_an_uninstalled_package_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "was_here" / "__pycache__").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert not is_installed("was_here")
    assert is_installed("json")
    with pytest.raises(MissingExtraError, match="this needs the package 'was_here'"):
        optional_import("was_here", "x")
