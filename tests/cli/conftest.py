"""A folder of photos and a run trained on it, as a user of the command line would have them."""

import os
from types import SimpleNamespace

import pytest

from lookalike.cli import run
from toys import photo_folders

FAST = ["--set", "train.mode=frozen", "--set", "train.epochs=2", "--set", "data.workers=0"]


@pytest.fixture(scope="session")
def desk(tmp_path_factory):
    """A working folder with `photos/` and its own caches; the process works in it while a test runs."""
    folder = tmp_path_factory.mktemp("desk")
    photo_folders(folder / "photos")
    return folder


@pytest.fixture(autouse=True)
def _at_the_desk(desk, monkeypatch):
    monkeypatch.chdir(desk)
    monkeypatch.setenv("LOOKALIKE_CACHE", str(desk / "cache"))


@pytest.fixture
def lookalike(capfd):
    """Runs a command and returns its exit code, standard output and standard error."""

    def call(*words):
        code = run([str(word) for word in words])
        captured = capfd.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call


@pytest.fixture(scope="session")
def trained(desk):
    """The folder of a run on the photos."""
    before, cache = os.getcwd(), os.environ.get("LOOKALIKE_CACHE")
    os.chdir(desk)
    os.environ["LOOKALIKE_CACHE"] = str(desk / "cache")
    try:
        assert run(["train", "photos", "--out", "runs/photos", "--quiet", *FAST]) == 0
        assert (
            run(
                [
                    "train",
                    "photos",
                    "--out",
                    "runs/other",
                    "--quiet",
                    *FAST,
                    "--set",
                    "model.pooling=average",
                ]
            )
            == 0
        )
    finally:
        os.chdir(before)
        if cache is None:
            del os.environ["LOOKALIKE_CACHE"]
        else:
            os.environ["LOOKALIKE_CACHE"] = cache
    return desk / "runs" / "photos"
