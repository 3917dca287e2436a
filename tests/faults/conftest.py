"""A folder of photos and a server of commands, each in its own process."""

import pytest
from benchmarks.faults.commands import Commands

from toys import TOY_SETTINGS, photo_folders

SETTINGS = [word for name in (*TOY_SETTINGS, "train.refit=true") for word in ("--set", name)]


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """The path of a small folder of photos."""
    return str(photo_folders(tmp_path_factory.mktemp("faults") / "photos"))


@pytest.fixture
def commands(tmp_path):
    """Commands that run in a folder of the test, with a cache of their own."""
    commands = Commands(tmp_path)
    yield commands
    commands.end()
