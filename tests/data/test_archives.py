"""Archives: what they hold is read as a folder or a table would be."""

import io
import os
import tarfile
import zipfile

import polars as pl
import pytest
from photo_table import PHOTOS, describe, zipped

from lookalike.data.read import read
from lookalike.errors import FileError


class TestArchive:
    @pytest.mark.parametrize("prefix", ["", "top/", "top/deeper/"])
    def test_zip_of_class_folders(self, photos, tmp_path, prefix):
        table = read(zipped(photos, tmp_path / "my.zip", prefix))
        assert describe(table) == PHOTOS
        assert table.name == "my"
        assert all(table.file(i).is_file() for i in range(6))

    @pytest.mark.parametrize("suffix", [".tar", ".tar.gz", ".tgz", ".tar.xz"])
    def test_tar_of_a_table(self, photos, tmp_path, suffix):
        pl.DataFrame({"path": [p for p, _ in PHOTOS], "label": list("aabbcc")}).write_csv(photos / "t.csv")
        mode = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.xz": "w:xz"}[suffix]
        with tarfile.open(tmp_path / f"my{suffix}", mode) as tar:
            tar.add(photos, "photos")
        assert read(tmp_path / f"my{suffix}").class_names == ("a", "b", "c")

    def test_unpacked_once_by_content(self, photos, tmp_path, cache):
        one = read(zipped(photos, tmp_path / "one.zip"))
        (one.root / "ant" / "mark.txt").touch()
        os.rename(tmp_path / "one.zip", tmp_path / "two.zip")
        two = read(tmp_path / "two.zip")
        assert two.root == one.root
        assert (two.root / "ant" / "mark.txt").exists()
        assert one.root.is_relative_to(cache)

    @pytest.mark.parametrize(
        "name", ["../evil.jpg", "/evil.jpg", "a/../../evil.jpg", "..\\evil.jpg", "C:/evil.jpg"]
    )
    def test_members_cannot_leave_the_folder(self, tmp_path, cache, name):
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as bundle:
            bundle.writestr(name, b"x")
        with tarfile.open(tmp_path / "x.tar", "w") as tar:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
        for archive in ("x.zip", "x.tar"):
            with pytest.raises(FileError, match="would be written outside"):
                read(tmp_path / archive)
        assert not list(tmp_path.rglob("evil.jpg"))
        assert not [entry for entry in cache.glob("archives/*") if entry.suffix != ".lock"]

    def test_links_in_archives_are_left_out(self, photos, tmp_path):
        with tarfile.open(tmp_path / "x.tar", "w") as tar:
            tar.add(photos, "photos")
            link = tarfile.TarInfo("photos/ant/link.jpg")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
        table = read(tmp_path / "x.tar")
        assert describe(table) == PHOTOS
        assert any(
            "1 links and devices are left out, first photos/ant/link.jpg" in note for note in table.notes
        )

    def test_a_damaged_archive_leaves_nothing(self, photos, tmp_path, cache):
        whole = zipped(photos, tmp_path / "x.zip").read_bytes()
        for name, content in (("half.zip", whole[:900]), ("text.tar.gz", b"<html>")):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(FileError, match=f"{name}: damaged or not an archive"):
                read(tmp_path / name)
        assert not [entry for entry in cache.glob("archives/*") if entry.suffix != ".lock"]
