"""Unpacks zip and tar archives, and archives inside them, into the cache: once, whole, and never outside it."""

import contextlib
import lzma
import re
import shutil
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from lookalike.data.readers.files import is_system_file
from lookalike.data.readers.zip_names import name_decoder
from lookalike.errors import FileError, first_line
from lookalike.utils.cached_folder import folder_of, make_folder

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tbz2", ".tar.bz2", ".txz", ".tar.xz")
MAX_DEPTH = 3
"""Archives inside archives are unpacked so deep."""
MAX_RATIO, ALWAYS_ALLOWED = 200, 1 << 30
"""Images are compressed already; an archive may hold 1 GB, or 200 times its own size if that is more."""
NOTES = ".unpacking_notes"
"""A file in the unpacked folder; no reader looks at hidden files."""


def is_archive(path: Path) -> bool:
    """By the suffix."""
    return path.name.lower().endswith(ARCHIVE_SUFFIXES)


def unpack(archives: Sequence[Path]) -> Path:
    """The folder with the content of one archive, or of several laid over each other.

    It lies in the cache under the SHA-256 of the archives, so the next call finds it. It appears under its
    name only when complete: an interrupted call leaves nothing that could be taken for it.

    Raises:
        FileError: not an archive, damaged, or with members that would land elsewhere.
    """
    folder = folder_of((archive, "") for archive in archives)
    make_folder(folder, lambda temporary: _unpack_all(archives, temporary))
    return folder


def unpacking_notes(folder: Path) -> tuple[str, ...]:
    """What `unpack` noted when it made `folder`; nothing for other folders."""
    try:
        return tuple((folder / NOTES).read_text(encoding="utf-8", errors="surrogateescape").splitlines())
    except OSError:
        return ()


def _unpack_all(archives: Sequence[Path], folder: Path) -> None:
    budget = _Budget(max(ALWAYS_ALLOWED, MAX_RATIO * sum(archive.stat().st_size for archive in archives)))
    notes = [note for archive in archives for note in _extract(archive, folder, budget, depth=1)]
    if notes:
        (folder / NOTES).write_text("\n".join(notes), encoding="utf-8", errors="surrogateescape")


@dataclass
class _Budget:
    """Bytes that may still be unpacked."""

    left: int

    def copy(self, archive: Path, stream: IO[bytes], out: IO[bytes]) -> None:
        """Copies a member."""
        while block := stream.read(1 << 20):
            self.left -= len(block)
            if self.left < 0:
                raise FileError(
                    f"{archive}: holds more than {MAX_RATIO} times its own size, as no archive of images does; "
                    "if you trust it, unpack it by hand and give the folder"
                )
            out.write(block)


def _extract(archive: Path, target: Path, budget: _Budget, *, depth: int) -> list[str]:
    """Unpacks an archive and those in it; returns notes on what a person should know."""
    made: set[Path] = set()
    files: set[Path] = set()
    notes: list[str] = []
    inner: list[Path] = []
    try:
        with _members(archive, notes) as members:
            for name, stream in members:
                file = target / _inside(archive, name)
                if any(is_system_file(part) for part in PurePosixPath(name.replace("\\", "/")).parts):
                    continue
                if is_archive(file):
                    inner.append(file)
                if file in files:
                    notes.append(f"{archive.name}: the name {name} appears twice; the last of them counts")
                files.add(file)
                if file.parent not in made:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    made.add(file.parent)
                with open(file, "wb") as out:
                    budget.copy(archive, stream, out)
        for nested in inner:
            notes += _extract_inner(nested, budget, depth=depth)
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        LookupError,
        struct.error,
    ) as error:
        if isinstance(error, FileError):
            raise
        # such as Deflate64, which Windows writes for large archives
        if isinstance(error, NotImplementedError):
            raise FileError(
                f"{archive}: is compressed in a way that is not read; unpack it and give the folder"
            ) from error
        why = first_line(error).rstrip(":")
        raise FileError(f"{archive}: damaged or not an archive ({why}); fetch it again") from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{archive}: cannot be unpacked ({error.strerror or error}: {error.filename or 'read error'}); check the "
            "free space, and that names in it are short and differ"
        ) from error
    return notes


def _extract_inner(archive: Path, budget: _Budget, *, depth: int) -> list[str]:
    """Unpacks an archive inside an archive into a folder of its name, and removes it."""
    if depth >= MAX_DEPTH:
        raise FileError(f"{archive.name}: archives are nested more than {MAX_DEPTH} deep; unpack it by hand")
    folder = archive.parent / _stem(archive)
    content = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=archive.parent))
    notes = _extract(archive, content, budget, depth=depth + 1)
    archive.unlink()
    own = content / folder.name
    entries = list(content.iterdir())
    lifted = own if entries == [own] and own.is_dir() else content
    if folder.exists():
        shutil.copytree(lifted, folder, dirs_exist_ok=True)
    else:
        lifted.rename(folder)
    shutil.rmtree(content, ignore_errors=True)
    folder.chmod(0o755)
    return notes


def _stem(archive: Path) -> str:
    name = archive.name
    suffix = max((s for s in ARCHIVE_SUFFIXES if name.lower().endswith(s)), key=len)
    return name[: -len(suffix)] or "archive"


@contextlib.contextmanager
def _members(archive: Path, notes: list[str]) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Names and contents of the files in an archive; links are followed to other members, devices are left out.

    Args:
        notes: where notes on names and on what was left out are added.
    """
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            files = [info for info in bundle.infolist() if not info.is_dir()]
            if any(info.flag_bits & 1 for info in files):
                raise FileError(f"{archive}: is encrypted; unpack it with its password and give the folder")
            name_of, note = name_decoder(files)
            notes += [note] if note else []
            yield ((name_of(info), bundle.open(info)) for info in files)
    else:
        with tarfile.open(archive) as tar:
            yield _tar_members(tar, archive, notes)


def _tar_members(tar: tarfile.TarFile, archive: Path, notes: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """As above. `tarfile` takes a damaged header for the end; what follows the true one is zeros, and is read so that
    the checksum of a compressed file is compared."""
    left_out = []
    for info in tar:
        try:
            stream = tar.extractfile(info)
        except KeyError:  # a link to something outside
            stream = None
        if stream is not None:
            yield info.name, stream
        elif not info.isdir():
            left_out.append(info.name)
    if left_out:
        notes.append(f"{archive.name}: {len(left_out):,} links and devices are left out, first {left_out[0]}")
    rest = tar.fileobj
    assert rest is not None
    rest.seek(tar.offset)
    while block := rest.read(1 << 20):
        if block.strip(b"\0"):
            raise tarfile.ReadError("a header in the middle is damaged")


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    drive = re.match(r"[A-Za-z]:", name) is not None
    if path.is_absolute() or ".." in path.parts or not path.parts or drive or "\0" in name:
        raise FileError(
            f"{archive}: member '{name}' would be written outside the target folder; do not trust it"
        )
    return path
