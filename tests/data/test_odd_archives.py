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


def test_other_archives_are_named(tmp_path):
    (tmp_path / "x.7z").write_bytes(b"7z")
    with pytest.raises(LookalikeError, match="only zip and tar archives are read"):
        read(tmp_path / "x.7z")


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
