"""Fixtures that several test files share."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real pictures; tests that need it skip, with the reason, where it is absent."""
    folder = Path(os.environ.get("LOOKALIKE_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is absent: no folder {folder} (set LOOKALIKE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def oracles() -> dict:
    """Reference values of losses and metrics; tests that need them skip where the file is absent."""
    import json

    file = Path(os.environ.get("LOOKALIKE_SHARED", ROOT.parent / "shared")) / "oracles.json"
    if not file.is_file():
        pytest.skip(f"reference values are absent: no file {file} (set LOOKALIKE_SHARED)")
    return json.loads(file.read_text())
