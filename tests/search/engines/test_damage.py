"""Engines on damaged files, in other processes, and without their server: one line of error, or a true answer."""

import subprocess
import sys

import numpy as np
import pytest

from lookalike.errors import FileError
from lookalike.search.engines import ENGINES, EngineLocation, pgvector

from ..damage import damaged_copies
from .test_contract import DIM, EVERY, unit

ON_FILES = [name for name in EVERY if name != "pgvector"]


@pytest.mark.parametrize("name", ON_FILES)
def test_a_damaged_file_is_reported_or_answers_stay_true(name, tmp_path):
    entry = ENGINES[name.split()[0]]
    if entry.package:
        pytest.importorskip(entry.package, reason=f"pip install 'lookalike[{entry.extra}]' is absent")
    vectors = unit(60)

    def opened(folder, writable):
        uri = str(folder / "file.db") if entry.uri else None
        return EVERY[name](EngineLocation(folder / "vectors", DIM, "damaged", uri, writable))

    whole = tmp_path / "whole"
    whole.mkdir()
    engine = opened(whole, True)
    engine.add(np.arange(50), vectors[:50])
    engine.save()
    engine.add(np.arange(50, 60), vectors[50:])
    engine.delete(np.array([3]))
    engine.close()
    answered, errors = 0, []
    for file, damage, copy in damaged_copies(whole, tmp_path):
        for writable in (False, True):
            try:
                engine = opened(copy, writable)
                try:
                    found = engine.search(vectors[:4], 5)
                finally:
                    engine.close()
            except FileError as error:
                errors.append(str(error))
                continue
            answered += 1
            assert found.ids.shape == found.similarities.shape, (file, damage)
            assert np.abs(found.similarities).max(initial=0) <= 1, (file, damage)
            assert (np.diff(found.similarities, axis=1) <= 0).all(), (file, damage)
    assert answered
    assert errors
    assert all(len(error.splitlines()) == 1 for error in errors)


@pytest.mark.parametrize("name", ENGINES)
def test_another_process_sees_the_same_vectors(name, tmp_path, request):
    entry = ENGINES[name]
    if entry.package:
        pytest.importorskip(entry.package, reason=f"pip install 'lookalike[{entry.extra}]' is absent")
    uri = request.getfixturevalue(f"{name}_uri") if entry.uri else None
    engine = entry.open(EngineLocation(tmp_path, DIM, "shared", uri))
    engine.add(np.arange(30), unit(30))
    engine.save()
    engine.delete(np.array([4]))
    engine.close()
    program = (
        "import sys; from pathlib import Path; import numpy as np\n"
        "from lookalike.search.engines import ENGINES, EngineLocation\n"
        "name, folder, uri, dim = sys.argv[1:]\n"
        "engine = ENGINES[name].open(EngineLocation(Path(folder), int(dim), 'shared', uri or None, False))\n"
        "vectors = engine.vectors(np.array([2, 5]))\n"
        "print(engine.count(), engine.search(vectors, 1).ids.ravel().tolist()); engine.close()"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, name, str(tmp_path), uri or "", str(DIM)],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "29 [2, 5]\n", done.stderr


def test_a_file_of_milvus_that_another_process_has_open_is_reported(tmp_path):
    pytest.importorskip("milvus_lite", reason="milvus-lite is absent")
    file = tmp_path / "file.db"
    program = (
        "import sys; from milvus_lite.server_manager import server_manager_instance as servers\n"
        "servers.start_and_get_uri(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(FileError, match="another process uses it"):
            ENGINES["milvus"].open(EngineLocation(tmp_path, DIM, uri=str(file)))
    finally:
        other.communicate()


def test_a_lost_connection_is_reported_once_and_opened_again(pgvector_uri, tmp_path):
    psycopg = pytest.importorskip("psycopg", reason="pip install 'lookalike[pgvector]' is absent")
    vectors = unit(20)
    engine = ENGINES["pgvector"].open(EngineLocation(tmp_path, DIM, "lost", pgvector_uri))
    engine.add(np.arange(10), vectors[:10])
    others = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND usename IS NOT NULL"
    )
    calls = (
        lambda: engine.search(vectors, 3),
        engine.count,
        engine.ids,
        engine.save,
        lambda: engine.vectors(np.array([1])),
        lambda: engine.delete(np.array([1])),
        lambda: engine.add(np.arange(10, 20), vectors[10:]),
    )
    for call in calls:
        with psycopg.connect(pgvector_uri, autocommit=True) as database:
            database.execute(others)
        with pytest.raises(FileError, match="PostgreSQL, table lost: "):
            call()
        assert engine.ids().tolist() == list(range(10)), "half of a change"
    for call in calls:
        call()
    assert engine.ids().tolist() == [0, *range(2, 20)]
    engine.close()


@pytest.mark.parametrize("error", ["DiskFull", "OutOfMemory"])
def test_postgresql_without_shared_memory_builds_the_graph_in_one_process(
    pgvector_uri, tmp_path, monkeypatch, error
):
    """As in a container, whose /dev/shm has 64 MB."""
    psycopg = pytest.importorskip("psycopg", reason="pip install 'lookalike[pgvector]' is absent")
    monkeypatch.setattr(pgvector, "INDEX_FROM", 10)
    table = f"small_{error.casefold()}"
    engine = ENGINES["pgvector"].open(EngineLocation(tmp_path, DIM, table, pgvector_uri))
    engine.add(np.arange(20), unit(20))
    execute = engine._db.execute

    def without_shared_memory(sql, *values):
        processes = execute("SHOW max_parallel_maintenance_workers").fetchone()[0]
        if sql.startswith("CREATE INDEX") and processes != "0":
            raise getattr(psycopg.errors, error)("could not resize shared memory segment")
        return execute(sql, *values)

    monkeypatch.setattr(engine._db, "execute", without_shared_memory)
    engine.save()
    assert execute("SELECT to_regclass(%s)", (f"{table}_hnsw",)).fetchone()[0]
    assert engine.search(unit(20)[3:4], 1).ids.tolist() == [[3]]
    engine.close()


@pytest.mark.parametrize(
    ("own", "most", "expected"), [("64MB", 1 << 30, "64MB"), ("2MB", 1 << 30, "3MB"), ("2MB", 1, "2MB")]
)
def test_the_graph_is_built_in_what_it_needs_or_the_servers_own_memory_if_that_is_larger(
    pgvector_uri, tmp_path, monkeypatch, own, most, expected
):
    pytest.importorskip("psycopg", reason="pip install 'lookalike[pgvector]' is absent")
    monkeypatch.setattr(pgvector, "INDEX_FROM", 1)
    monkeypatch.setattr(pgvector, "NODE_BYTES", 3 * 2**19 - 4 * DIM)
    monkeypatch.setattr(pgvector, "MOST_MEMORY", most)
    uri = f"{pgvector_uri}&options=-cmaintenance_work_mem%3D{own}"
    place = EngineLocation(tmp_path, DIM, f"own_{own}_{most}", uri)
    engine = ENGINES["pgvector"].open(place)
    engine.add(np.arange(2), unit(2))
    engine.save()
    assert engine._db.execute("SHOW maintenance_work_mem").fetchone()[0] == expected
    engine.close()
