"""One contract for every engine; `servers` starts the real ones that some need."""

import inspect
import json
import sys

import numpy as np
import pytest

from lookalike.errors import ArgumentError, FileError, MissingExtraError
from lookalike.search.engines import ENGINES, EngineLocation
from lookalike.search.engines.exact import search_rows
from lookalike.search.engines.faiss import FaissEngine, FaissSettings
from lookalike.search.engines.measured import FILE, measured
from lookalike.search.engines.vector_file import VectorFile

from .vectors import DIM, unit

GRAPH = FaissSettings(hnsw_from=20, exact_share=0)
LISTS = FaissSettings(hnsw_from=2, lists_from=20, exact_share=0, code_dims=2, code_bits=3)
VARIANTS = {
    "faiss graph": lambda location: FaissEngine(location, GRAPH),
    "faiss lists": lambda location: FaissEngine(location, LISTS),
}
EVERY = {**{name: entry.open for name, entry in ENGINES.items()}, **VARIANTS}


@pytest.fixture(params=EVERY)
def opened(request, tmp_path):
    """Opens the engine again and again at one place, as processes would."""
    entry = ENGINES[request.param.split()[0]]
    if entry.package:
        pytest.importorskip(entry.package, reason=f"pip install 'lookalike[{entry.extra}]' is absent")
    uri = request.getfixturevalue(f"{request.param}_uri") if entry.uri else None
    name = f"t{tmp_path.name.replace('-', '_')}"
    engines = []

    def call(writable=True, dim=DIM):
        location = EngineLocation(tmp_path / "vectors", dim, name, uri, writable)
        engines.append(EVERY[request.param](location))
        return engines[-1]

    yield call
    for engine in engines:
        engine.close()


def slow(vectors, ids, query, k):
    """Ids of the k most similar vectors, in a loop."""
    return sorted(ids, key=lambda i: -float(vectors[i] @ query))[:k]


@pytest.mark.parametrize("count", [1, 3, 200])
@pytest.mark.parametrize("k", [1, 5, 300])
def test_a_query_gets_exactly_min_k_n_ids_with_their_cosines(opened, count, k):
    vectors, queries, ids = unit(count), unit(4, seed=1), np.arange(count) + 7
    engine = opened()
    engine.add(ids, vectors)
    engine.save()
    for found in (engine.search(queries, k), opened(writable=False).search(queries, k)):
        width = min(k, count)
        assert found.ids.shape == found.similarities.shape == (4, width)
        assert (found.ids.dtype, found.similarities.dtype) == (np.int64, np.float32)
        assert all(len(set(line)) == width for line in found.ids.tolist())
        assert (np.diff(found.similarities, axis=1) <= 1e-6).all()
        assert np.isin(found.ids, ids).all()
        cosines = np.take_along_axis(queries @ vectors.T, found.ids - 7, axis=1)
        np.testing.assert_allclose(found.similarities, cosines, atol=1e-5)


def test_deleted_vectors_are_gone_and_new_ones_are_found(opened):
    vectors = unit(120)
    engine = opened()
    engine.add(np.arange(60), vectors[:60])
    engine.save()
    engine.delete(np.arange(0, 60, 2))
    engine.delete(np.array([999, 0]))
    engine.add(np.arange(60, 120), vectors[60:])
    left = [*range(1, 60, 2), *range(60, 120)]
    for stage in ("before saving", "after saving", "opened again"):
        assert engine.count() == len(left), stage
        assert engine.ids().tolist() == left, stage
        found = engine.search(vectors, 1)
        for row in left:
            assert found.ids[row, 0] == row, (stage, row)
        assert not np.isin(found.ids, np.arange(0, 60, 2)).any(), stage
        if stage == "before saving":
            engine.save()
        else:
            engine.close()
            engine = opened()


def test_a_filter_gives_exactly_min_k_matches(opened):
    vectors = unit(100)
    engine = opened()
    engine.add(np.arange(100), vectors)
    engine.save()
    for allowed in ([], [5], list(range(0, 100, 3)), list(range(95)), [500, 5]):
        stored = [i for i in allowed if i < 100]
        found = engine.search(vectors[:3], 10, allowed=np.array(allowed, np.int64))
        assert found.ids.shape == (3, min(10, len(stored)))
        assert np.isin(found.ids, stored).all()
    exact = [slow(vectors, range(0, 100, 3), query, 5) for query in vectors[:3]]
    found = engine.search(vectors[:3], 5, allowed=np.arange(0, 100, 3))
    share = np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found.ids.tolist(), exact, strict=True)])
    assert share > 0.7


@pytest.mark.parametrize("dim", [DIM, 2500, 4500])
def test_similarities_never_leave_minus_one_to_one_in_any_width(opened, dim):
    vectors = unit(40, dim)
    engine = opened(dim=dim)
    engine.add(np.arange(40), vectors)
    engine.save()
    found = engine.search(np.concatenate([vectors, -vectors]), 40)
    assert found.similarities.max() <= 1
    assert found.similarities.min() >= -1
    assert found.ids[:40, 0].tolist() == list(range(40))


def test_ids_may_be_large_and_filters_may_repeat_them(opened):
    vectors, ids = unit(3), np.array([1, 2**40, 2**62])
    engine = opened()
    engine.add(ids, vectors)
    assert engine.search(vectors, 10**9).ids[:, 0].tolist() == ids.tolist()
    assert engine.search(vectors[:1], 5, allowed=np.array([2**62, 1, 1])).ids.tolist() == [[1, 2**62]]
    assert engine.vectors(ids[[1, 1]]).shape == (2, DIM)


def test_equal_vectors_are_each_found_once(opened):
    engine = opened()
    engine.add(np.arange(60), np.repeat(unit(2), 30, axis=0))
    engine.save()
    found = engine.search(unit(2), 25).ids
    for number, line in enumerate(found.tolist()):
        assert len(set(line)) == 25
        assert {i // 30 for i in line} == {number}


def test_queries_may_be_read_only_of_another_type_or_none(opened):
    engine, vectors = opened(), unit(30)
    engine.add(np.arange(30), vectors)
    engine.save()
    frozen = vectors[:2].copy()
    frozen.flags.writeable = False
    for queries in (frozen, np.asfortranarray(vectors[:2]), vectors[:2].astype(np.float64)):
        assert engine.search(queries, 1).ids.tolist() == [[0], [1]]
    assert len(engine.search(vectors[:0], 1).ids) == 0


def test_an_engine_may_be_emptied_and_filled_again(opened):
    engine, vectors = opened(), unit(30)
    engine.add(np.arange(30), vectors)
    engine.save()
    engine.delete(np.arange(30))
    engine.delete(np.array([], np.int64))
    engine.add(np.array([], np.int64), vectors[:0])
    assert (engine.count(), engine.ids().tolist()) == (0, [])
    assert engine.search(vectors[:2], 5).ids.shape == (2, 0)
    engine.add(np.arange(30, 60), vectors)
    engine.save()
    assert opened(writable=False).search(vectors[:1], 1).ids.tolist() == [[30]]


def test_vectors_come_back_as_they_were_given(opened):
    vectors = unit(20)
    engine = opened()
    engine.add(np.arange(20) * 3, vectors)
    np.testing.assert_allclose(engine.vectors(np.array([57, 0, 3])), vectors[[19, 0, 1]], atol=1e-6)
    with pytest.raises(ArgumentError, match="1"):
        engine.vectors(np.array([1]))


def test_an_empty_engine_finds_nothing(opened):
    engine = opened()
    assert engine.count() == 0
    engine.save()
    assert engine.search(unit(2), 3).ids.shape == (2, 0)
    assert opened(writable=False).search(unit(2), 3).ids.shape == (2, 0)


@pytest.mark.parametrize("block", [1, 3, 1000])
@pytest.mark.parametrize("deleted", [[], [0, 7, 39], list(range(38))])
def test_exact_search_in_blocks_of_any_size_equals_a_sorted_list(tmp_path, block, deleted):
    vectors, queries = unit(40), unit(5, seed=1)
    file = VectorFile(tmp_path, DIM, writable=True)
    file.add(np.arange(40), vectors)
    rows = np.setdiff1d(np.arange(40), deleted)
    found, _ = search_rows(file, queries, 4, rows if deleted else None, block=block)
    assert found.tolist() == [slow(vectors, rows.tolist(), query, 4) for query in queries]


def test_ties_come_in_the_order_of_adding(tmp_path):
    file = VectorFile(tmp_path, DIM, writable=True)
    file.add(np.arange(12), np.repeat(unit(2), 6, axis=0))
    assert search_rows(file, unit(1), 3, None)[0].tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("settings", [GRAPH, LISTS], ids=["graph", "lists"])
def test_faiss_finds_nearly_all_of_a_larger_set(tmp_path, settings):
    pytest.importorskip("faiss", reason="pip install 'lookalike[faiss]' is absent")
    vectors = unit(3000, dim=32)
    engine = FaissEngine(EngineLocation(tmp_path, 32), settings)
    engine.add(np.arange(3000), vectors)
    engine.save()
    exact = (vectors[:100] @ vectors.T).argsort(axis=1)[:, :-11:-1]
    found = engine.search(vectors[:100], 10).ids
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    assert share > 0.9
    assert len(list(tmp_path.glob("*.faiss"))) == 1


@pytest.mark.parametrize(
    ("engine", "uri"),
    [
        ("pgvector", "postgresql://me:secret@host/db"),
        ("pgvector", "postgresql://me@host/db?password=secret"),
        ("milvus", "http://me:secret@host:19530"),
    ],
)
def test_a_password_is_not_stored(tmp_path, engine, uri):
    pytest.importorskip(ENGINES[engine].package, reason=f"pip install 'lookalike[{engine}]' is absent")
    with pytest.raises(ArgumentError, match=r"PGPASSWORD|MILVUS_TOKEN"):
        ENGINES[engine].open(EngineLocation(tmp_path, DIM, uri=uri))


def test_a_server_that_is_not_there_is_reported(tmp_path):
    pytest.importorskip("psycopg", reason="pip install 'lookalike[pgvector]' is absent")
    with pytest.raises(FileError, match="cannot be opened"):
        ENGINES["pgvector"].open(EngineLocation(tmp_path, DIM, uri="postgresql://127.0.0.1:1/db"))


@pytest.mark.parametrize("name", [name for name, entry in ENGINES.items() if entry.package])
def test_a_missing_package_prints_the_install_command(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, ENGINES[name].package, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'lookalike\[{ENGINES[name].extra}\]'"):
        ENGINES[name].open(EngineLocation(tmp_path, DIM, uri="postgresql://host/db"))


def test_published_measurements_are_of_engines_and_name_their_source():
    for name, row in json.loads(FILE.read_text(encoding="utf-8")).items():
        assert name in ENGINES
        assert 0 < row["recall_at_10"] <= 1
        assert row["queries_per_second"] > 0
        assert row["command"]
        assert row["date"]
        assert row["commit"]
        assert row["machine"]


def test_an_engine_that_was_not_measured_shows_no_number(monkeypatch, tmp_path):
    (tmp_path / "measured.json").write_text('{"exact": {"recall_at_10": 1.0, "queries_per_second": 51.4}}')
    monkeypatch.setattr("lookalike.search.engines.measured.FILE", tmp_path / "measured.json")
    assert measured("exact") == ("100.00 %", "51")
    assert measured("milvus") == ("-", "-")


def test_an_engine_searches_although_another_package_has_replaced_the_search_of_faiss(opened, monkeypatch):
    faiss = pytest.importorskip("faiss", reason="pip install 'lookalike[faiss]' is absent")

    def search(self, x, k, D=None, I=None):  # noqa: E741 - as in faiss.contrib.torch_utils, which PML loads
        return self.search_numpy(x, k, D=D, I=I)

    for kind in {kind for kind in vars(faiss).values() if inspect.isclass(kind) and "search" in vars(kind)}:
        if "search_numpy" not in vars(kind):  # else it is replaced already
            monkeypatch.setattr(kind, "search_numpy", kind.search, raising=False)
            monkeypatch.setattr(kind, "search", search)
    vectors = unit(60)
    engine = opened()
    engine.add(np.arange(60), vectors)
    engine.save()
    assert engine.search(vectors[:5], 1).ids[:, 0].tolist() == [0, 1, 2, 3, 4]
    some = np.arange(3, 60)
    assert engine.search(vectors[3:5], 1, allowed=some).ids[:, 0].tolist() == [3, 4]
