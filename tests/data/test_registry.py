import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from lookalike.data import registry
from lookalike.data.add import add_dataset
from lookalike.data.read import read
from lookalike.data.readers.plain import ReadOptions
from lookalike.data.registry import known_datasets, registered
from lookalike.errors import ArgumentError, DataError, FileError


def test_an_archive_is_unpacked_checked_and_named(photos, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
        for file in photos.rglob("*.jpg"):
            bundle.write(file, file.relative_to(photos).as_posix())
    entry = add_dataset("insects", [tmp_path / "x.zip"])
    (tmp_path / "x.zip").unlink()
    table = read("insects")
    assert (entry.images, entry.classes, entry.digest) == (6, 3, table.digest())
    row = next(r for r in known_datasets() if r["name"] == "insects")
    assert row["state"] == "added"
    assert "6 images, 3 classes" in row["about"]


def test_several_archives_are_laid_over_each_other(photos, tmp_path):
    for name in ("ant", "bee"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as bundle:
            for file in (photos / name).iterdir():
                bundle.write(file, f"{name}/{file.name}")
    assert add_dataset("two", [tmp_path / "ant.zip", tmp_path / "bee.zip"]).classes == 2
    with pytest.raises(ArgumentError, match="must all be archives"):
        add_dataset("two", [tmp_path / "ant.zip", photos])


def test_a_folder_stays_where_it_is(photos):
    assert add_dataset("insects", [photos]).path == str(photos)
    assert read("insects").root == photos


def test_a_published_name_insists_on_its_layout(photos):
    with pytest.raises(DataError, match="does not look like sop"):
        add_dataset("sop", [photos])
    assert registered() == {}


def test_names_that_cannot_be(photos):
    with pytest.raises(ArgumentError, match="'glyphs' is built in"):
        add_dataset("glyphs", [photos])


@pytest.mark.parametrize("name", ["", "a/b", "a.zip", "..", "-x", " a", "=1+1", "a b", "a\n"])
def test_names_that_could_be_a_path_an_option_or_a_formula(name, photos):
    with pytest.raises(ArgumentError, match="cannot name a data set"):
        add_dataset(name, [photos])


def test_letters_of_any_language_can_name_a_data_set(photos):
    assert add_dataset("Möbel_2-été", [photos]).images == registered()["Möbel_2-été"].images


def test_a_damaged_list_says_what_to_do(cache):
    cache.mkdir()
    (cache / "datasets.json").write_text("{")
    with pytest.raises(FileError, match="delete it and add them again"):
        registered()


def test_names_that_are_added_at_the_same_time_are_all_there(photos, monkeypatch):
    table, slow = read(photos), registry.registered

    def registered():
        entries = slow()
        time.sleep(0.05)  # another process adds a name between reading and writing
        return entries

    monkeypatch.setattr(registry, "registered", registered)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: registry.register(name, photos, table, ReadOptions()), "abcd"))
    assert sorted(slow()) == list("abcd")


def test_a_folder_that_has_gone(photos):
    add_dataset("insects", [photos])
    photos.rename(photos.parent / "elsewhere")
    with pytest.raises(DataError, match=r"'insects' was added from .*photos, which is gone; add it again"):
        read("insects")
