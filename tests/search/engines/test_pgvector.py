"""What only the pgvector engine does: memory for its build."""

import numpy as np

from lookalike.search.engines import EngineLocation, pgvector

DIM = 8


def test_pgvector_builds_in_the_memory_that_the_graph_takes(pgvector_uri, tmp_path, monkeypatch):
    monkeypatch.setattr(pgvector, "INDEX_FROM", 100)
    assert pgvector.build_memory_kb(1_000_000, 512) == 3_000_000
    assert pgvector.build_memory_kb(100_000_000, 512) == 4 * 2**20
    for server_kb, asked_kb, used_kb in ((65_536, 80_000, 80_000), (90_000, 80_000, 90_000)):
        monkeypatch.setattr(pgvector, "build_memory_kb", lambda *_, asked_kb=asked_kb: asked_kb)
        engine = pgvector.PgvectorEngine(
            EngineLocation(tmp_path, DIM, uri=pgvector_uri, name=f"m{server_kb}")
        )
        engine._db.execute(f"SET maintenance_work_mem = {server_kb}")
        engine.add(np.arange(200), np.eye(200, DIM, dtype=np.float32))
        engine.save()
        kb = "SELECT setting FROM pg_settings WHERE name = 'maintenance_work_mem'"
        assert int(engine._db.execute(kb).fetchone()[0]) == used_kb
        engine.close()
