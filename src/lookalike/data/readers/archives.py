"""Unpacks zip and tar archives into the cache, once, whole, and never outside of it."""

import contextlib
import hashlib
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from lookalike.data.readers.files import is_litter
from lookalike.errors import FileError
from lookalike.utils.cache_dir import cache_folder

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


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
    sha = hashlib.sha256()
    for archive in archives:
        try:
            with open(archive, "rb") as stream:
                sha.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise FileError(f"{archive}: cannot be read ({error.strerror})") from error
    home = cache_folder() / "archives"
    folder = home / sha.hexdigest()[:32]
    if folder.is_dir():
        return folder
    home.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".partial", dir=home))
    try:
        for archive in archives:
            _extract(archive, temporary)
        with contextlib.suppress(OSError):  # another process may have been first
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if not folder.is_dir():
        raise FileError(f"{folder}: could not be created; check free space and permissions of {home}")
    return folder


def _extract(archive: Path, target: Path) -> None:
    made: set[Path] = set()
    try:
        with _members(archive) as members:
            for name, stream in members:
                file = target / _inside(archive, name)
                if any(is_litter(part) for part in PurePosixPath(name).parts):
                    continue
                if file.parent not in made:
                    file.parent.mkdir(parents=True, exist_ok=True)
                    made.add(file.parent)
                with open(file, "wb") as out:
                    shutil.copyfileobj(stream, out, 1 << 20)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError) as error:
        raise FileError(
            f"{archive}: damaged, encrypted or not an archive ({error}); fetch it again"
        ) from error
    except FileError:
        raise
    except OSError as error:
        raise FileError(
            f"{archive}: cannot be unpacked into {target.parent} ({error}); check the free space"
        ) from error


@contextlib.contextmanager
def _members(archive: Path) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Names and contents of the regular files in an archive; links and devices are left out."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            yield ((info.filename, bundle.open(info)) for info in bundle.infolist() if not info.is_dir())
    else:
        with tarfile.open(archive) as tar:
            yield (
                (info.name, stream)
                for info in tar
                if info.isreg() and (stream := tar.extractfile(info)) is not None
            )


def _inside(archive: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in (path.parts or ("",))[0] or "\0" in name:
        raise FileError(
            f"{archive}: member '{name}' would be written outside the target folder; do not trust it"
        )
    return path
