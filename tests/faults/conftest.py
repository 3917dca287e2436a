"""A folder of photos and quick settings for commands."""

import pytest

from toys import TOY_SETTINGS, photo_folders

SETTINGS = [word for name in (*TOY_SETTINGS, "train.refit=true") for word in ("--set", name)]


@pytest.fixture(scope="session")
def photos(tmp_path_factory):
    """The path of a small folder of photos."""
    return str(photo_folders(tmp_path_factory.mktemp("faults") / "photos"))
