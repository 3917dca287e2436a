"""Downloads from a server on this machine: checked, whole or absent, and without a trace afterwards."""

import hashlib
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lookalike.data.add import add_dataset
from lookalike.data.download import REMOTES, Remote, fetch
from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.errors import ArgumentError, FileError
from lookalike.utils.progress import LineProgress


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture
def archive(photos, tmp_path):
    served = tmp_path / "served"
    served.mkdir()
    with zipfile.ZipFile(served / "insects.zip", "w") as bundle:
        for file in photos.rglob("*.jpg"):
            bundle.write(file, file.relative_to(photos).as_posix())
    return served / "insects.zip"


@pytest.fixture
def address(archive):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=archive.parent))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/{archive.name}"
    server.shutdown()
    thread.join()
    server.server_close()


def sha256(file):
    return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("with_checksum", [True, False])
def test_an_address_is_fetched_added_and_the_archive_goes(address, archive, cache, with_checksum):
    entry = add_dataset("insects", [address], checksum=sha256(archive) if with_checksum else None)
    assert (entry.images, entry.classes) == (6, 3)
    assert len(read("insects")) == 6
    assert list((cache / "downloads").iterdir()) == []


def test_another_hash_leaves_nothing(address, cache):
    with pytest.raises(FileError, match=r"insects\.zip: what came is not what was published"):
        add_dataset("insects", [address], checksum="md5:" + "0" * 32)
    assert list((cache / "downloads").iterdir()) == []


def test_a_file_that_is_there_is_not_fetched_again(archive, tmp_path):
    nowhere = Remote("http://127.0.0.1:9/insects.zip", sha256(archive))
    assert fetch(nowhere, archive.parent) == archive


def test_what_does_not_answer_says_what_to_do(address, tmp_path):
    with pytest.raises(FileError, match=r"cannot be downloaded .*404.*; download it in another way and add"):
        fetch(Remote(address + "x"), tmp_path)
    with pytest.raises(FileError, match="the host cannot be reached; download it in another way"):
        fetch(Remote("http://127.0.0.1:9/a.zip"), tmp_path)
    with pytest.raises(FileError, match="does not end with the name of a file"):
        fetch(Remote("http://127.0.0.1/"), tmp_path)


def test_progress_is_reported_in_megabytes(address, archive, tmp_path, capsys):
    archive.write_bytes(bytes(3 * 2**20 + 1))
    fetch(Remote(address), tmp_path, LineProgress())
    assert "downloading insects.zip (MB): done, 4 in" in capsys.readouterr().err


def test_sources_that_do_not_go_together(address, photos):
    with pytest.raises(ArgumentError, match="'cars196' cannot be fetched by its name"):
        add_dataset("cars196")
    for other in ("s3://bucket/x.zip", "ftp://host/x.zip", "file:///x.zip"):
        with pytest.raises(ArgumentError, match=f"'{other}' cannot be fetched: addresses begin with http"):
            add_dataset("x", [other])
    with pytest.raises(ArgumentError, match="some sources are addresses"):
        add_dataset("x", [address, photos])
    with pytest.raises(ArgumentError, match="a checksum belongs to one address"):
        add_dataset("x", [photos], checksum="md5:0")
    with pytest.raises(ArgumentError, match="expected md5"):
        add_dataset("x", [address], checksum="123")


@pytest.mark.parametrize("name", REMOTES)
def test_published_archives_are_of_known_layouts_and_have_hashes(name):
    assert name in LAYOUTS
    for remote in REMOTES[name]:
        kind, _, digits = (remote.checksum or "").partition(":")
        assert len(digits) == {"md5": 32, "sha256": 64}[kind]
        assert remote.name.endswith((".zip", ".tgz"))
