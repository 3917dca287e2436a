"""The index: what it stores, finds and refuses, whoever opens it."""

import pickle

import numpy as np
import pytest
from benchmarks.faults.commands import fork_server

from lookalike.errors import ArgumentError, FileError, UnknownNameError
from lookalike.search import ImageIndex, IndexedFile
from lookalike.search.engines import NoVectorError

from .small_index import DIM, FINGERPRINT, fill, find_first, unit


def paths(lines):
    return [[match.path for match in line] for line in lines]


def test_every_image_finds_itself_and_keeps_its_id(index, folder):
    vectors = unit(20)
    fill(index, vectors)
    found = index.search(3 * vectors, 1, fingerprint=FINGERPRINT)
    assert paths(found) == [[f"{row}.png"] for row in range(20)]
    ids = [line[0].id for line in found]
    index.close()
    with ImageIndex.open(folder) as again:
        assert len(again) == 20
        assert [line[0].id for line in again.search(vectors, 1, fingerprint=FINGERPRINT)] == ids
        assert found[3][0].label == "odd"
        assert found[3][0].file == folder.parent / "photos" / "3.png"


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("label = odd", range(1, 20, 2)),
        ("year >= 2010 and label in (even)", range(10, 20, 2)),
        ("year < 2000", []),
        ("path = '7.png'", [7]),
    ],
)
@pytest.mark.parametrize("k", [1, 4, 50])
def test_a_filter_gives_exactly_min_k_matches(index, where, rows, k):
    vectors = unit(20)
    fill(index, vectors, year=[2000 + row for row in range(20)])
    (line,) = index.search(vectors[:1], k, fingerprint=FINGERPRINT, where=where)
    assert len(line) == min(k, len(list(rows)))
    assert {match.path for match in line} <= {f"{row}.png" for row in rows}
    assert all(match.values["year"] == 2000 + int(match.path[:-4]) for match in line)


def test_identical_contents_are_one_image_with_several_paths(index):
    fill(index, unit(3))
    with index.catalog.transaction():
        root = next(iter(index.catalog.roots()))
        (item,) = index.catalog.items_of_digests(["digest 1"]).values()
        index.catalog.put_files(root, [item], [IndexedFile("copy.png", "copied")])
    assert len(index) == 3
    (line,) = index.search(unit(3)[1:2], 3, fingerprint=FINGERPRINT)
    assert (line[0].path, line[0].copies) == ("1.png", ("copy.png",))
    (line,) = index.search(unit(3)[1:2], 3, fingerprint=FINGERPRINT, where="label = copied")
    assert paths([line]) == [["copy.png"]], "the file that matches is shown"


def test_near_identical_images_collapse_on_request(index):
    base = unit(10)
    near = base[0] + 0.01 * unit(30, seed=5)
    fill(index, np.concatenate([base, near]))
    plain = index.search(base[:1], 5, fingerprint=FINGERPRINT)
    assert all(match.similarity > 0.99 for match in plain[0])
    (line,) = index.search(base[:1], 5, fingerprint=FINGERPRINT, collapse=0.98)
    assert len(line) == 5
    assert sum(match.similarity > 0.98 for match in line) == 1


def test_below_the_threshold_nothing_is_shown(index):
    vectors = unit(50)
    fill(index, vectors)
    (line,) = index.search(vectors[:1], 50, fingerprint=FINGERPRINT, min_similarity=0.3)
    expected = sorted((v for v in (vectors @ vectors[0]).tolist() if v >= 0.3), reverse=True)
    np.testing.assert_allclose([match.similarity for match in line], expected, atol=1e-6)


def test_an_image_can_leave_itself_out(index):
    vectors = unit(5)
    fill(index, vectors)
    ids = index.catalog.ids().tolist()
    found = index.search(vectors, 5, fingerprint=FINGERPRINT, leave_out=ids)
    for row, line in enumerate(found):
        assert len(line) == 4
        assert f"{row}.png" not in {match.path for match in line}


def test_removed_images_are_gone_and_ids_are_never_used_again(index, folder):
    fill(index, unit(6))
    before = index.catalog.ids().tolist()
    root = next(iter(index.catalog.roots()))
    with index.catalog.transaction():
        index.catalog.delete_files(root, ["5.png", "4.png"])
    assert index.remove_unused() == 2
    assert len(index) == index.engine.count() == 4
    fill(index, unit(2, seed=9), first=10)
    after = index.catalog.ids().tolist()
    assert not set(after[4:]) & set(before)


def test_images_are_deleted_by_id_and_unknown_ids_do_nothing(index, folder):
    vectors = unit(4)
    fill(index, vectors)
    first, second = index.catalog.ids()[:2].tolist()
    index.delete([first, 99])
    assert len(index) == index.engine.count() == 3
    assert index.files([first]) == {}
    assert [len(index.files([number])) for number in (first, second)] == [0, 1]
    index.close()
    with ImageIndex.open(folder) as again:
        assert len(again) == 3
        with pytest.raises(ArgumentError, match="opened for reading"):
            again.delete([second])


def test_vectors_without_an_image_are_never_shown_and_the_next_writer_removes_them(index, folder):
    vectors = unit(12)
    fill(index, vectors[:4])
    index.engine.add(index.catalog.reserve(8), vectors[4:])  # ended before the catalog learned of them
    index.close()
    with ImageIndex.open(folder) as reader:
        found = reader.search(vectors, 4, fingerprint=FINGERPRINT)
        assert all(
            len(line) == 4 and {m.path for m in line} == {f"{r}.png" for r in range(4)} for line in found
        )
    with ImageIndex.open(folder, writable=True) as writer:
        assert writer.engine.count() == 4


def test_a_second_writer_is_reported_and_readers_continue(index, folder):
    fill(index, unit(3))
    with pytest.raises(FileError, match="another process is changing the index"):
        ImageIndex.open(folder, writable=True)
    with ImageIndex.open(folder) as reader:
        assert len(reader) == 3
        fill(index, unit(2, seed=3), first=3)
        assert reader.refresh()
        assert not reader.refresh()
        (line,) = reader.search(unit(2, seed=3)[:1], 1, fingerprint=FINGERPRINT)
        assert line[0].path == "3.png"
        index.set_facts(threshold={"similarity": 0.5})
        assert reader.refresh()
        assert reader.facts.threshold == {"similarity": 0.5}
    index.close()
    ImageIndex.open(folder, writable=True).close()


def test_what_a_reader_asks_for_is_of_one_moment(index, folder):
    fill(index, unit(3))
    with ImageIndex.open(folder) as reader:
        with reader.reading():
            ids = reader.catalog.page(None, 0, 9)
            with index.catalog.transaction():
                index.catalog.delete_items(ids)
            index.catalog.set_columns({"year": "number"})
            assert sorted(reader.files(ids)) == ids
        assert reader.files(ids) == {}


def test_an_image_that_another_process_removes_during_a_search_is_not_found(index, folder, monkeypatch):
    """A server's vectors are gone at once, while the reader's moment of the catalog still has the image."""
    fill(index, unit(3))
    with ImageIndex.open(folder) as reader:
        vectors, gone = reader.engine.vectors, []

        def vectors_of_a_server(ids):
            if not gone:
                with index.catalog.transaction():
                    index.catalog.delete_items([int(ids[0])])
                gone.append(int(ids[0]))
                raise NoVectorError(gone[0], "the server")
            return vectors(ids)

        monkeypatch.setattr(reader.engine, "vectors", vectors_of_a_server)
        (line,) = reader.search(unit(1), 3, fingerprint=FINGERPRINT, collapse=1.0)
        assert {match.id for match in line} == {1, 2, 3} - set(gone)


def test_another_models_vectors_are_refused(index):
    with pytest.raises(ArgumentError, match="holds vectors of model model"):
        index.search(unit(1), fingerprint="other")


@pytest.mark.parametrize(
    ("vectors", "words"),
    [
        (np.zeros((1, DIM), np.float32), "zero or not finite"),
        (np.full((1, DIM), np.nan, np.float32), "zero or not finite"),
        (np.ones((1, DIM + 1), np.float32), "expected"),
        (np.ones(DIM, np.float32), "expected"),
    ],
)
def test_vectors_that_cannot_be_compared_are_refused(index, vectors, words):
    with pytest.raises(ArgumentError, match=words):
        index.search(vectors, fingerprint=FINGERPRINT)
    with pytest.raises(ArgumentError, match=words):
        fill(index, vectors)
    assert len(index) == index.engine.count() == 0


def test_an_empty_index_finds_nothing(index):
    assert index.search(unit(2), fingerprint=FINGERPRINT) == ((), ())


def test_engines_are_refused_with_the_remedy(folder):
    with pytest.raises(UnknownNameError, match="search engine 'exakt'; did you mean 'exact'"):
        ImageIndex.create(folder, fingerprint=FINGERPRINT, dim=DIM, engine="exakt")
    with pytest.raises(ArgumentError, match="no --uri"):
        ImageIndex.create(folder, fingerprint=FINGERPRINT, dim=DIM, uri="postgresql://x")
    assert not folder.exists() or not any(folder.iterdir())


def test_an_existing_index_is_not_replaced(index, folder):
    index.close()
    with pytest.raises(FileError, match="holds an index already"):
        ImageIndex.create(folder, fingerprint=FINGERPRINT, dim=DIM)


def test_a_process_of_its_own_opens_the_index_that_it_is_sent(folder):
    with ImageIndex.create(folder, fingerprint=FINGERPRINT, dim=DIM) as index:
        fill(index, unit(3))
        copy = pickle.loads(pickle.dumps(index))
        with copy, pytest.raises(ArgumentError, match="was opened for reading"):
            copy.remove_unused()
    with ImageIndex.open(folder) as index, fork_server().Pool(1) as pool:
        assert pool.apply(find_first, [index]) == find_first(pickle.loads(pickle.dumps(index))) == "1.png"
