"""Files are whole or absent, readable by those whom the umask allows, and strict JSON."""

import errno
import json
import os
import platform
import stat
import zlib

import numpy as np
import pytest
import torch

from lookalike.errors import FileError
from lookalike.utils.io import (
    explain_os_error,
    os_errors,
    remove_temporaries,
    to_json,
    write_atomically,
    write_json,
    write_text,
)
from lookalike.utils.tensor_file import load_tensors, save_tensors


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
@pytest.mark.parametrize("write", ["text", "tensors"])
def test_file_modes_follow_the_umask(mask, write, tmp_path):
    before = os.umask(mask)
    try:
        if write == "text":
            write_text(tmp_path / "file", "x")
        else:
            save_tensors(tmp_path / "file", {"a": torch.zeros(2)})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize(
    "number", [float("nan"), float("inf"), -float("inf"), np.float64("nan"), np.float32("inf")]
)
def test_json_never_holds_what_strict_parsers_refuse(number, tmp_path):
    write_json(tmp_path / "x.json", {"a": number, "b": [1.5, {"c": (number, "кот")}], "n": np.int64(3)})

    def refuse(word):
        raise AssertionError(word)

    text = (tmp_path / "x.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=refuse) == {"a": None, "b": [1.5, {"c": [None, "кот"]}], "n": 3}
    assert to_json(number) == "null"


def test_temporaries_of_killed_writers_are_removed_and_nothing_else(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in (".a.json.123.tmp", "sub/.b.safetensors.9.tmp", "mine.tmp", ".hidden"):
        (tmp_path / name).write_text("x")
    remove_temporaries(tmp_path)
    assert sorted(file.name for file in tmp_path.rglob("*") if file.is_file()) == [".hidden", "mine.tmp"]


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot be asked whether a process runs")
def test_what_another_process_is_writing_stays(tmp_path):
    """As the report of a run that has just ended, when the next command continues that run."""
    writing = tmp_path / f".report.html.{platform.node()}-{os.getppid()}.tmp"
    writing.touch()
    remove_temporaries(tmp_path)
    assert writing.exists()


def test_a_write_that_fails_leaves_no_temporary(tmp_path):
    def fail(file):
        file.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    told = pytest.raises(FileError, match=r"^cannot write '.*x': No space left on device; buy a disk$")
    with told, os_errors("write", tmp_path / "x", "buy a disk"):
        write_atomically(tmp_path / "x", fail)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_named_with_the_file(tmp_path):
    def fail(file):
        raise OSError(errno.ENOSPC, "No space left on device")  # as `write` does, which knows no name

    with pytest.raises(OSError, match="No space") as caught:
        write_atomically(tmp_path / "x", fail)
    assert explain_os_error(caught.value).startswith(
        f"No space left on device '{tmp_path / 'x'}'; free some space"
    )


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "can be written"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EFBIG, "ulimit -f"),
    ],
)
def test_operating_system_errors_are_explained_with_path_and_remedy(code, remedy, tmp_path, monkeypatch):
    message = explain_os_error(OSError(code, os.strerror(code), "/some/file"))
    assert message.startswith(f"{os.strerror(code)} '/some/file'; ")
    assert remedy in message
    monkeypatch.setenv("LOOKALIKE_CACHE", str(tmp_path))
    assert "set LOOKALIKE_CACHE" in explain_os_error(OSError(code, "x", str(tmp_path / "f")))


@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_damaged_tensor_files_are_named(damage, tmp_path):
    file = tmp_path / "x.safetensors"
    save_tensors(file, {"a": torch.arange(100.0)})
    content = bytearray(file.read_bytes())
    crc32 = zlib.crc32(content)
    assert torch.equal(load_tensors(file, crc32=crc32)["a"], torch.arange(100.0))
    if damage == "gone":
        file.unlink()
    else:
        content[-9] ^= 1
        file.write_bytes(content[:-20] if damage == "truncated" else content)
    with pytest.raises(FileError, match=r"x\.safetensors"):
        load_tensors(file, crc32=crc32)


def test_errors_name_the_file_that_was_asked_for(tmp_path):
    with pytest.raises(IsADirectoryError) as caught:
        write_text(tmp_path, "x")
    assert explain_os_error(caught.value) == f"Is a directory '{tmp_path}'; name a file"
    (tmp_path / "full").symlink_to("/proc/self")
    with pytest.raises(OSError, match="No such file") as caught:
        write_text(tmp_path / "full" / "x.json", "x")
    assert caught.value.filename == str(tmp_path / "full" / "x.json")
