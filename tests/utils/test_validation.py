"""Argument checks: optional packages."""

import pytest

from lookalike.errors import MissingExtraError
from lookalike.utils.validation import is_installed, optional_import


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


def test_a_folder_that_an_uninstalled_package_left_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "gone" / "__pycache__").mkdir(parents=True)
    (tmp_path / "here.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert [is_installed(name) for name in ("gone", "here", "nowhere_at_all")] == [False, True, False]
