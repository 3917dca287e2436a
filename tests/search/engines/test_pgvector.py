"""What only the pgvector engine does: its breadth grows with the number of rows."""

import numpy as np
import pytest

from lookalike.search.engines import EngineLocation, pgvector

from .vectors import DIM, unit


@pytest.mark.parametrize(("rows", "breadth"), [(40, "100"), (20_000, "200"), (400_000, "1000")])
def test_postgresql_looks_at_more_candidates_of_more_vectors(
    pgvector_uri, tmp_path, monkeypatch, rows, breadth
):
    """One for so many rows, here 100, up to pgvector's own limit."""
    pytest.importorskip("psycopg", reason="pip install 'lookalike[pgvector]' is absent")
    monkeypatch.setattr(pgvector, "INDEX_FROM", 1)
    monkeypatch.setattr(pgvector, "ROWS_PER_BREADTH", 100)
    engine = pgvector.PgvectorEngine(EngineLocation(tmp_path, DIM, f"b{rows}", pgvector_uri))
    engine.add(np.arange(40), unit(40))
    engine.save()
    execute, set_to = engine._db.execute, []
    execute("UPDATE pg_class SET reltuples = %s WHERE relname = %s", (rows, f"b{rows}"))

    def watched(sql, *values):
        if "hnsw.ef_search" in sql:
            set_to.append(sql.split()[-1])
        return execute(sql, *values)

    monkeypatch.setattr(engine._db, "execute", watched)
    assert engine.search(unit(40)[:1], 3).ids.shape == (1, 3)
    assert set_to == [breadth]
    engine.close()
