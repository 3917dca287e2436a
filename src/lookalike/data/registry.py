"""Names for data sets on this machine: built-in ones, and those that `lookalike data add` registered."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lookalike.data.download import REMOTES, Remote, fetch, is_address
from lookalike.data.readers.archives import cache_folder, is_archive, unpack
from lookalike.data.table import LabeledImages
from lookalike.errors import ArgumentError, FileError
from lookalike.files import write_atomically
from lookalike.progress import Progress


@dataclass(frozen=True)
class Registered:
    """Where a named data set lies, how it is read, and what it held when it was added."""

    path: str
    layout: str | None
    pictures: int
    classes: int
    digest: str


def _glyphs() -> LabeledImages:
    from lookalike.data.glyphs import draw_glyphs

    return draw_glyphs()


BUILT_IN: dict[str, Callable[[], LabeledImages]] = {"glyphs": _glyphs}


def registered() -> dict[str, Registered]:
    """Data sets added on this machine, by name.

    Raises:
        FileError: the list of names is damaged.
    """
    file = _file()
    if not file.is_file():
        return {}
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {name: Registered(**entry) for name, entry in entries.items()}
    except (ValueError, TypeError, AttributeError, OSError) as error:
        raise FileError(
            f"{file}: the list of data sets is damaged ({error}); delete it and add them again"
        ) from error


def register(name: str, path: Path, table: LabeledImages, layout: str | None = None) -> Registered:
    """Makes `name` stand for the data set at `path`; an earlier entry of that name is replaced.

    Raises:
        ArgumentError: the name is built in, or looks like a path.
    """
    _check_name(name)
    entry = Registered(str(path.absolute()), layout, len(table), table.num_classes, table.digest())
    entries = {**registered(), name: entry}
    file = _file()
    listing = json.dumps({key: asdict(value) for key, value in sorted(entries.items())}, indent=1)
    write_atomically(file, lambda temporary: temporary.write_text(listing, encoding="utf-8"))
    return entry


def _check_name(name: str) -> None:
    if name in BUILT_IN:
        raise ArgumentError(f"'{name}' is built in; choose another name")
    if not name or any(sign in name for sign in "/\\.") or name != name.strip():
        raise ArgumentError(f"'{name}' cannot name a data set; use letters, digits, '-' and '_'")


def add_dataset(
    name: str,
    sources: Sequence[str | Path] = (),
    *,
    checksum: str | None = None,
    progress: Progress | None = None,
) -> Registered:
    """Unpacks, reads with all checks, and registers; archives that belong together are laid over each other.

    Args:
        name: one of `readers.LAYOUTS` insists on that layout.
        sources: archives, their addresses (http, https), or a folder or table; the published archives
            of `download.REMOTES` when there are none. What was fetched goes once it is unpacked.
        checksum: `md5:...` or `sha256:...` of the one address.

    Raises:
        ArgumentError: several sources that are not all archives, a name that cannot be one, no source where
            none is published, or a checksum without one address.
        DataError: the data is not complete, or not what its name says.
        FileError: a download failed, or is not what the checksum says.
    """
    _check_name(name)
    remotes = _remotes(name, [str(source) for source in sources], checksum)
    fetched = [fetch(remote, cache_folder() / "downloads", progress) for remote in remotes]
    entry = _add(name, fetched or [Path(source) for source in sources])
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
    if addresses and len(addresses) != len(sources):
        raise ArgumentError("some sources are addresses and some are files; give all of one kind")
    if checksum is not None and len(addresses) != 1:
        raise ArgumentError(f"a checksum belongs to one address; {len(addresses)} are given")
    if checksum is not None and checksum.partition(":")[0] not in ("md5", "sha256"):
        raise ArgumentError(f"the checksum is '{checksum}'; expected md5:... or sha256:...")
    return [Remote(address, checksum) for address in addresses] if sources else REMOTES[name]


def _add(name: str, sources: Sequence[Path]) -> Registered:
    from lookalike.data.readers import LAYOUTS, read

    archives = [source for source in sources if is_archive(source)]
    if len(sources) != 1 and len(archives) != len(sources):
        raise ArgumentError("several sources must all be archives; unpack them into one folder and add that")
    place = unpack(list(sources)) if archives else sources[0]
    layout = name if name in LAYOUTS else None
    return register(name, place, read(place, layout=layout), layout)


def known_datasets() -> list[dict[str, Any]]:
    """What can be read by name, and which published layouts are recognized, as rows for a table."""
    from lookalike.data.readers import LAYOUTS

    here = registered()
    rows = [{"name": name, "state": "built in", "about": "drawn characters"} for name in BUILT_IN]
    rows += [
        {"name": name, "state": "added", "about": f"{e.pictures:,} pictures, {e.classes:,} classes: {e.path}"}
        for name, e in sorted(here.items())
    ]
    known = ((name, layout.about) for name, layout in LAYOUTS.items() if name not in here)
    return rows + [{"name": name, "state": "recognized", "about": about} for name, about in known]


def _file() -> Path:
    return cache_folder() / "datasets.json"
