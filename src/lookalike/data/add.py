"""`lookalike data add`: fetch or unpack a data set, check it, and give it a name."""

from collections.abc import Collection, Sequence
from pathlib import Path

from lookalike.data.download import REMOTES, SCHEMES, Remote, fetch, is_address
from lookalike.data.read import read
from lookalike.data.readers import LAYOUTS
from lookalike.data.readers.archives import is_archive, unpack
from lookalike.data.readers.plain import ReadOptions
from lookalike.data.registry import Registered, check_name, register
from lookalike.errors import ArgumentError
from lookalike.utils.cache_dir import cache_folder
from lookalike.utils.progress import Progress


def add_dataset(
    name: str,
    sources: Sequence[str | Path] = (),
    *,
    checksum: str | None = None,
    layout: str | None = None,
    verify: bool = True,
    ignore_labels: Collection[str] = (),
    progress: Progress | None = None,
) -> Registered:
    """Unpacks, reads and registers; archives that belong together are laid over each other.

    Args:
        name: one of `readers.LAYOUTS` insists on that layout.
        sources: archives, their addresses (http, https), or a folder or table; the published archives
            of `download.REMOTES` when there are none. What was fetched goes once it is unpacked.
        checksum: `md5:...` or `sha256:...` of the one address.
        layout, verify, ignore_labels: how the data is read, now and whenever it is named.

    Raises:
        ArgumentError: several sources that are not all archives, a name that cannot be one, no source where
            none is published, a checksum without one address, or a published name for something else.
        DataError: the data is not complete, or not what its name says.
        FileError: a download failed, or is not what the checksum says.
    """
    check_name(name)
    if name in LAYOUTS and (layout not in (None, name) or not verify):
        raise ArgumentError(
            f"'{name}' names the whole published data set; choose another name for a part of it"
        )
    remotes = _remotes(name, [str(source) for source in sources], checksum)
    fetched = [fetch(remote, cache_folder() / "downloads", progress) for remote in remotes]
    path = _unpacked(fetched or [Path(source) for source in sources])
    options = ReadOptions(
        name if name in LAYOUTS else layout, verify=verify, ignore_labels=tuple(ignore_labels)
    )
    table = read(path, layout=options.layout, verify=options.verify, ignore_labels=options.ignore_labels)
    entry = register(name, path, table, options)
    for file in fetched:
        file.unlink()
    return entry


def _remotes(name: str, sources: Sequence[str], checksum: str | None) -> Sequence[Remote]:
    """What has to be fetched."""
    if not sources and name not in REMOTES:
        raise ArgumentError(
            f"'{name}' cannot be fetched by its name (these can: {', '.join(REMOTES)}); give its archive, "
            "folder or table, or an address"
        )
    addresses = [source for source in sources if is_address(source)]
    other = [source for source in sources if "://" in source and source not in addresses]
    if other:
        raise ArgumentError(
            f"'{other[0]}' cannot be fetched: addresses begin with {' or '.join(SCHEMES)}; or give a file"
        )
    if addresses and len(addresses) != len(sources):
        raise ArgumentError("some sources are addresses and some are files; give all of one kind")
    if checksum is not None and len(addresses) != 1:
        raise ArgumentError(f"a checksum belongs to one address; {len(addresses)} are given")
    if checksum is not None and checksum.partition(":")[0] not in ("md5", "sha256"):
        raise ArgumentError(f"the checksum is '{checksum}'; expected md5:... or sha256:...")
    return [Remote(address, checksum) for address in addresses] if sources else REMOTES[name]


def _unpacked(sources: Sequence[Path]) -> Path:
    """The folder of the unpacked archives, or the one folder or table."""
    archives = [source for source in sources if is_archive(source)]
    if len(sources) != 1 and len(archives) != len(sources):
        raise ArgumentError("several sources must all be archives; unpack them into one folder and add that")
    return unpack(list(sources)) if archives else sources[0]
