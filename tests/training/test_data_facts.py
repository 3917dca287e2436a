"""What may change in the data of a run that is resumed, and what may not."""

import shutil

import pytest

from lookalike.config.experiment import Experiment
from lookalike.data.read import read
from lookalike.errors import FileError
from lookalike.training.fit import fit
from toys import TOY_SETTINGS, photo_folders

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def photos(tmp_path):
    return photo_folders(tmp_path / "photos", classes=10, each=4)


@pytest.fixture
def run(photos, tmp_path):
    """A finished run on the photos, in mode partial, whose caches do not hold the test images."""
    settings = Experiment().override([*TOY_SETTINGS, "train.mode=partial", "train.epochs=1"])
    fit(photos, tmp_path / "run", settings)
    return tmp_path / "run"


def a_file(photos, part, number=0):
    split = Experiment().split(read(photos))
    table = getattr(split, part)
    return table.file(number)


def test_a_broken_test_image_that_is_removed_or_replaced_does_not_end_the_run(photos, tmp_path):
    broken = a_file(photos, "test")
    whole = broken.read_bytes()
    broken.write_bytes(whole[:100])
    settings = Experiment().override([*TOY_SETTINGS, "train.mode=partial", "train.epochs=1"])
    count = fit(photos, tmp_path / "run", settings).result["data"]["images"]["test"]
    shutil.copytree(tmp_path / "run", tmp_path / "other")
    broken.unlink()
    assert fit(photos, tmp_path / "run", resume=True).result["data"]["images"]["test"] == count
    broken.write_bytes(whole)
    assert fit(photos, tmp_path / "other", resume=True).result["data"]["images"]["test"] == count + 1


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_images_may_go(part, photos, run):
    a_file(photos, part).unlink()
    fit(photos, run, resume=True)


def test_test_images_may_come(photos, run):
    file = a_file(photos, "test")
    shutil.copy(file, file.with_name("more.png"))
    fit(photos, run, resume=True)


@pytest.mark.parametrize("part", ["train", "validation"])
def test_images_that_train_or_select_may_not_come(part, photos, run):
    file = a_file(photos, part)
    shutil.copy(file, file.with_name("more.png"))
    with pytest.raises(FileError, match=r"did not have 1 of these images .*more\.png"):
        fit(photos, run, resume=True)


def test_classes_may_not_change(photos, run):
    shutil.rmtree(a_file(photos, "train").parent)
    with pytest.raises(FileError, match="classes differ"):
        fit(photos, run, resume=True)
