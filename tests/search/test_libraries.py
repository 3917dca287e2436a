"""Libraries that are moved, copied, mounted elsewhere or out of reach: images keep their ids."""

import shutil

import pytest

from lookalike.search.build import build_index

from .conftest import paint
from .small_index import counts, only


def test_an_unreachable_library_is_not_forgotten(model, photos, out, tmp_path):
    build_index(model, photos, out, device="cpu")
    paint(tmp_path / "other" / "owl" / "0.png", seed=50)
    photos.rename(tmp_path / "offline")
    report = build_index(model, tmp_path / "other", out, prune=True, device="cpu")
    assert report.images == 7


def test_a_moved_library_keeps_its_ids_and_nothing_is_embedded(model, photos, out, tmp_path):
    build_index(model, photos, out, device="cpu")
    before = {hit.path: hit.id for hit in only(out, photos / "dog" / "1 x.png").hits}
    moved = tmp_path / "elsewhere" / "library"
    moved.parent.mkdir()
    photos.rename(moved)
    report = build_index(model, moved, out, device="cpu")
    assert counts(report) == (0, 0, 0, 6, 0, 0)
    assert "is now at" in str(report)
    hits = only(out, moved / "dog" / "1 x.png").hits
    assert {hit.path: hit.id for hit in hits} == before
    assert hits[0].file == moved / "dog" / "1 x.png"


@pytest.mark.parametrize("order", [("2024", "2025"), ("2025", "2024")])
def test_roots_may_be_nested_or_joined_in_any_order(model, tmp_path, out, order):
    for year in order:
        for number in range(2):
            paint(tmp_path / "library" / year / "jan" / f"{number}.png", seed=10 * int(year) + number)
    for year in order:
        assert counts(build_index(model, tmp_path / "library" / year, out, device="cpu"))[0] == 2
    report = build_index(model, tmp_path / "library", out, device="cpu")
    assert (report.added, report.known, report.images) == (0, 0, 4)
    assert report.unchanged + report.relabeled == 4
    report = build_index(model, tmp_path / "library" / "2024", out, prune=True, device="cpu")
    assert (report.added, report.removed, report.images) == (0, 0, 4)
    files = {hit.file for hit in only(out, tmp_path / "library" / "2024" / "jan" / "0.png").hits}
    assert files == {tmp_path / "library" / year / "jan" / f"{n}.png" for year in order for n in range(2)}


def test_a_copied_library_adds_paths_and_no_image(model, photos, out, tmp_path):
    build_index(model, photos, out, device="cpu")
    shutil.copytree(photos, tmp_path / "backup")
    report = build_index(model, tmp_path / "backup", out, device="cpu")
    assert (report.added, report.known, report.images) == (0, 6, 6)
    assert only(out, photos / "dog" / "1 x.png").hits[0].copies == ("dog/1 x.png",)
