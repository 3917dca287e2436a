"""Fixtures that several test files share."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from benchmarks.faults.commands import Commands
from hypothesis import HealthCheck, settings

from toys import colored_squares

ROOT = Path(__file__).parent.parent

# No verdict depends on how busy the machine is.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def _shared() -> Path:
    return Path(os.environ.get("LOOKALIKE_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real images; tests that need it skip, with the reason, where it is absent."""
    folder = _shared() / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is absent: no folder {folder} (set LOOKALIKE_SHARED)")
    return folder


@pytest.fixture(scope="session")
def oracles() -> dict:
    """Reference values of losses and metrics; tests that need them skip where the file is absent."""
    file = _shared() / "oracles.json"
    if not file.is_file():
        pytest.skip(f"reference values are absent: no file {file} (set LOOKALIKE_SHARED)")
    return json.loads(file.read_text())


@pytest.fixture(scope="session")
def squares(tmp_path_factory):
    """A drawn data set of 16 classes of colored squares."""
    return colored_squares(tmp_path_factory.mktemp("squares"))


@pytest.fixture
def own_cache(tmp_path, monkeypatch) -> Path:
    """Caches of one test, which do not stay on the machine."""
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def commands(tmp_path) -> Iterator[Commands]:
    """Commands that run in a folder of the test, with a cache of their own."""
    commands = Commands(tmp_path)
    yield commands
    commands.end()


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    """As many threads as torch is told to compute with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)
