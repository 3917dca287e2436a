"""The parts of an index folder, opened together: facts, catalog, engine and, for a writer, the lock."""

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from lookalike.errors import FileError
from lookalike.search.catalog import CATALOG, Catalog
from lookalike.search.consistency import check_no_vector_lost, reconcile
from lookalike.search.engines import ENGINES, Engine, chosen_engine
from lookalike.search.facts import INDEX, IndexFacts, engine_location, read_facts, stored_uri, write_facts
from lookalike.search.lock import LOCK, lock_for_writing
from lookalike.utils.io import remove_temporaries
from lookalike.utils.validation import check_at_least, look_up
from lookalike.utils.what_is import what_is

OURS = (CATALOG, f"{CATALOG}-shm", f"{CATALOG}-wal", "vectors", "model", LOCK)
"""What an index that was not finished may have left."""


@dataclass
class IndexParts:
    """What an open index consists of.

    Attributes:
        version: of the catalog, when the engine was opened.
        lock: held by the one that may change the index; None for reading.
    """

    facts: IndexFacts
    catalog: Catalog
    engine: Engine
    version: int
    lock: FileLock | None

    def close(self) -> None:
        """Closes all of it, and releases the lock."""
        self.engine.close()
        self.catalog.close()
        if self.lock is not None:
            self.lock.release()


def create_parts(folder: Path, *, fingerprint: str, dim: int, engine: str, uri: str | None) -> IndexParts:
    """Those of a new, empty index; see `ImageIndex.create`."""
    check_at_least("dim", dim, 1)
    entry = chosen_engine(engine, uri)
    if folder.exists() and not folder.is_dir():
        raise FileError(f"'{folder}' is a file; name a folder for the index")
    if others := [] if (folder / INDEX).exists() else _other_files(folder):
        kind = what_is(folder)
        what = f"is {kind}" if kind else f"contains other files ({', '.join(others[:3])})"
        raise FileError(f"'{folder}' {what}; name a new folder for the index")
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_for_writing(folder)
    try:
        if (folder / INDEX).exists():
            raise FileError(f"'{folder}' holds an index already")
        facts = IndexFacts(f"lookalike_{uuid.uuid4().hex[:12]}", fingerprint, dim, engine, stored_uri(uri))
        shutil.rmtree(folder / "vectors", ignore_errors=True)
        catalog = Catalog.create(folder)
        try:
            opened = entry.open(engine_location(folder, facts, writable=True))
            write_facts(folder, facts)
        except BaseException:
            catalog.close()
            raise
        return IndexParts(facts, catalog, opened, catalog.version(), lock)
    except BaseException:
        lock.release()
        raise


def _other_files(folder: Path) -> list[str]:
    """What a folder holds besides hidden files that an index which was not finished cannot have left in it."""
    names = sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []
    return [
        name for name in names if name not in OURS and not name.startswith(".") and not name.endswith(".tmp")
    ]


def open_parts(folder: Path, *, writable: bool = False, repair: bool = False) -> IndexParts:
    """Those of the index in `folder`; see `ImageIndex.open`."""
    read_facts(folder)  # before a folder that is no index gets a lock
    lock = lock_for_writing(folder) if writable else None
    catalog = engine = None
    try:
        facts = read_facts(folder)
        if writable:
            remove_temporaries(folder)
        catalog = Catalog.open(folder, writable=writable)
        version, known = catalog.version(), catalog.count()
        entry = look_up(ENGINES, facts.engine, "search engine")
        engine = entry.open(engine_location(folder, facts, writable=writable))
        stored = engine.count()
        if version == catalog.version():  # else another process changes the index just now
            check_no_vector_lost(folder, facts, known, stored, repair=repair)
        if writable:
            reconcile(catalog, engine, repair=repair)
        if read_facts(folder).name != facts.name:
            raise FileError(f"the index '{folder}' was replaced while it was opened; open it again")
        return IndexParts(facts, catalog, engine, version, lock)
    except BaseException:
        for opened in (engine, catalog):
            if opened is not None:
                opened.close()
        if lock is not None:
            lock.release()
        raise
