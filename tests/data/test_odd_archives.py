"""Archives with links, names twice, locks, nothing inside, or of a kind that is not read."""

import tarfile
import zipfile

import pytest

from lookalike.data.read import read
from lookalike.errors import LookalikeError

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def bundle(photos, tmp_path):
    """The photos as a zip archive."""
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for file in sorted(photos.rglob("*.jpg")):
            archive.write(file, file.relative_to(photos).as_posix())
    return tmp_path / "x.zip"


@pytest.mark.parametrize(
    ("kind", "target"), [(tarfile.SYMTYPE, "../bee/{}"), (tarfile.LNKTYPE, "photos/bee/{}")]
)
def test_links_to_other_members_are_images_of_their_own(photos, tmp_path, kind, target):
    first = sorted((photos / "bee").iterdir())[0]
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as tar:
        tar.add(photos, "photos")
        link = tarfile.TarInfo("photos/ant/link.jpg")
        link.type, link.linkname = kind, target.format(first.name)
        tar.addfile(link)
    table = read(tmp_path / "x.tar.gz")
    assert table.file(table.paths.index("ant/link.jpg")).read_bytes() == first.read_bytes()


def test_a_locked_archive_is_not_called_damaged(bundle):
    data = bytearray(bundle.read_bytes())
    for mark, at in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        data[data.index(mark) + at] |= 1
    bundle.write_bytes(data)
    with pytest.raises(LookalikeError, match="is encrypted; unpack it with its password"):
        read(bundle)


def test_a_compression_that_is_not_read_is_not_called_damage(bundle):
    data = bundle.read_bytes()
    for mark, at in ((b"PK\x01\x02", 10), (b"PK\x03\x04", 8)):
        parts = data.split(mark)
        data = mark.join([parts[0], *(part[: at - 4] + b"\x09\0" + part[at - 2 :] for part in parts[1:])])
    bundle.write_bytes(data)
    with pytest.raises(LookalikeError, match="compressed in a way that is not read; unpack it"):
        read(bundle)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x.7z", "only zip and tar archives are read"),
        ("x.zip.001", "one part of a divided archive"),
        ("x.z01", "one part of a divided archive"),
        ("x.tar.gz.02", "one part of a divided archive"),
        ("x.txt", "a list of text; save it as CSV"),
        ("x.xlsx", "export the spreadsheet as CSV"),
    ],
)
def test_other_files_are_named(name, message, tmp_path):
    (tmp_path / name).write_bytes(b"7z")
    with pytest.raises(LookalikeError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("address", ["s3://bucket/photos", "https://example.com/x.zip", "file:///photos"])
def test_addresses_are_not_taken_for_names(address):
    with pytest.raises(LookalikeError, match="is an address; give a folder or file, or fetch an archive"):
        read(address)


def test_errors_name_the_archive_and_not_its_place_in_the_cache(tmp_path, own_cache):
    with zipfile.ZipFile(tmp_path / "none.zip", "w"):
        pass
    with pytest.raises(
        LookalikeError, match=r"none\.zip: holds no images; expected .*none\.zip/<class>"
    ) as caught:
        read(tmp_path / "none.zip")
    assert str(own_cache) not in str(caught.value)


def test_of_members_with_one_name_the_last_counts(bundle):
    with zipfile.ZipFile(bundle, "a") as archive:
        name = archive.namelist()[0]
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(name, b"other")
    table = read(bundle)
    assert table.file(table.paths.index(name)).read_bytes() == b"other"
    assert f"x.zip: the name {name} appears twice; the last of them counts" in table.notes
