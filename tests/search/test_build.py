"""From image files to an index: what is embedded, known, relabeled, moved, broken, missing."""

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lookalike.data.image_io import open_image
from lookalike.data.read import read
from lookalike.embedding import embed
from lookalike.errors import ArgumentError, DataError, FileError
from lookalike.models import build_embedder
from lookalike.models.checkpoint import load_model, save_model
from lookalike.search import ImageIndex
from lookalike.search import update as update_module
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder
from lookalike.search.image_search import SearchOptions, search_images

from .conftest import paint
from .small_index import counts, only


def test_index_then_update_then_search(model, photos, out):
    first = build_index(model, photos, out, device="cpu")
    assert counts(first) == (6, 0, 0, 0, 0, 0)
    assert str(first).endswith("photos.index: 6 images (6 added, 0 unchanged)")
    assert counts(build_index(model, photos, out, device="cpu")) == (0, 0, 0, 6, 0, 0)

    query = photos / "кот" / "1 x.png"
    hits = only(out, query)
    assert len(hits.hits) == 6
    best = hits.hits[0]
    assert (best.path, best.label, best.file) == ("кот/1 x.png", "кот", query)
    assert best.similarity == pytest.approx(1, abs=1e-5)

    paint(query, seed=77)
    os.utime(query, ns=(5, 5))
    (photos / "dog" / "0 x.png").unlink()
    paint(photos / "dog" / "new.png", seed=5)
    assert counts(build_index(model, photos, out, device="cpu")) == (2, 0, 0, 4, 1, 0)
    assert only(out, query).hits[0].path == "кот/1 x.png"
    assert only(out, query).hits[0].similarity == pytest.approx(1, abs=1e-5)


def test_vectors_are_those_of_embed(model, photos, out):
    build_index(model, photos, out, device="cpu")
    table = read(photos)
    embedder, _ = load_model(model)
    matrix = embed(embedder, table, device="cpu").matrix
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    with ImageIndex.open(out) as index:
        for row, path in enumerate(table.paths):
            ((item, _),) = [
                (i, f) for i, f in index.files(index.catalog.ids().tolist()).items() if f[0].file.path == path
            ]
            np.testing.assert_allclose(index.vectors([item])[0], matrix[row], atol=1e-5)


def test_files_that_are_gone_stay_marked_until_pruned(model, photos, out):
    build_index(model, photos, out, device="cpu")
    (photos / "dog" / "0 x.png").unlink()
    hits = only(out, photos / "dog" / "1 x.png")
    assert [hit.missing for hit in hits.hits if hit.path == "dog/0 x.png"] == [True]
    assert sum(hit.missing for hit in hits.hits) == 1
    assert len(only(out, photos / "dog" / "1 x.png").hits) == 6
    report = build_index(model, photos, out, device="cpu")
    assert (report.missing, report.images) == (1, 6)
    assert "1 file is not there now" in str(report)
    report = build_index(model, photos, out, prune=True, device="cpu")
    assert (report.removed, report.images) == (1, 5)
    assert len(only(out, photos / "dog" / "1 x.png").hits) == 5


def test_identical_files_are_one_image(model, photos, out):
    shutil.copy(photos / "dog" / "0 x.png", photos / "dog" / "same.png")
    report = build_index(model, photos, out, device="cpu")
    assert (report.added, report.known, report.images) == (6, 1, 6)
    hits = only(out, photos / "dog" / "same.png").hits
    assert len(hits) == 6
    assert {hits[0].path, *hits[0].copies} == {"dog/0 x.png", "dog/same.png"}


def write_table(file, photos, label, **columns):
    rows = sorted(path.relative_to(file.parent).as_posix() for path in photos.rglob("*.png"))
    names = list(columns)
    lines = [",".join(["path", "label", *names])]
    lines += [",".join([path, label(path), *(str(columns[name](path)) for name in names)]) for path in rows]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_corrected_label_or_column_arrives_without_embedding(model, photos, out, tmp_path, monkeypatch):
    table = tmp_path / "list.csv"
    write_table(table, photos, lambda path: "wrong", year=lambda path: 2020 + ("dog" in path))
    build_index(model, table, out, device="cpu")
    monkeypatch.setattr(
        ImageEncoder,
        "encode",
        lambda self, tensors: pytest.fail("embedded again") if tensors else np.empty((0, 8)),
    )
    write_table(
        table,
        photos,
        lambda path: "right" if "dog" in path else "wrong",
        year=lambda path: 2020 + ("dog" in path),
    )
    assert counts(build_index(model, table, out, device="cpu")) == (0, 0, 3, 3, 0, 0)
    write_table(table, photos, lambda path: "right", year=lambda path: 1999, place=lambda path: "zoo")
    assert counts(build_index(model, table, out, device="cpu")) == (0, 0, 6, 0, 0, 0)
    monkeypatch.undo()
    hits = only(out, photos / "dog" / "1 x.png", where="year = 1999 and place = zoo and label = right")
    assert len(hits.hits) == 6
    assert hits.hits[0].values == {"year": 1999, "place": "zoo"}


def test_what_a_source_does_not_say_stays(model, photos, out, tmp_path):
    """One class folder has no labels, and a folder has no columns: neither takes them from the index."""
    table = tmp_path / "list.csv"
    write_table(table, photos, lambda path: path.split("/")[1], year=lambda path: 2020)
    build_index(model, table, out, device="cpu")
    paint(photos / "dog" / "9 new.png", seed=70)
    for source, new in ((photos / "dog", 1), (photos, 0), (photos / "dog", 0)):
        report = build_index(model, source, out, device="cpu")
        assert (report.added, report.relabeled) == (new, 1 if source == photos else 0), source
        hits = only(out, photos / "dog" / "1 x.png", where="label = dog and year = 2020")
        assert len(hits.hits) == 3


@pytest.mark.parametrize("content", [b"", b"<html>", "half"], ids=["empty", "text", "truncated"])
def test_broken_images_are_named_and_the_others_indexed(model, photos, out, content):
    broken = photos / "dog" / "broken.png"
    broken.write_bytes((photos / "dog" / "0 x.png").read_bytes()[:60] if content == "half" else content)
    report = build_index(model, photos, out, device="cpu")
    assert (report.images, list(report.bad)) == (6, ["dog/broken.png"])
    assert "broken.png" in str(report)
    assert "1 broken, skipped" in str(report)
    with pytest.raises(DataError, match=r"broken\.png"):
        build_index(model, photos, out, on_bad_file="fail", device="cpu")
    paint(broken, seed=60)
    assert build_index(model, photos, out, device="cpu").images == 7


def test_a_file_that_broke_since_is_not_shown_any_more(model, photos, out):
    build_index(model, photos, out, device="cpu")
    (photos / "dog" / "0 x.png").write_bytes(b"<html>")
    report = build_index(model, photos, out, device="cpu")
    assert (report.removed, report.images) == (1, 5)


@pytest.mark.parametrize("ahead", [1, 2, 100])
def test_any_number_of_images_per_commit_gives_the_same_index(model, photos, out, monkeypatch, ahead):
    shutil.copy(photos / "dog" / "0 x.png", photos / "dog" / "same.png")
    monkeypatch.setattr(update_module, "_READ_AHEAD", ahead)
    monkeypatch.setattr(update_module, "COMMIT_IMAGES", 1)
    monkeypatch.setattr(update_module, "_LOOKED_UP", 2)
    report = build_index(model, photos, out, device="cpu")
    assert (report.added, report.known, report.images) == (6, 1, 6)
    assert only(out, photos / "dog" / "1 x.png").hits[0].path == "dog/1 x.png"


def test_no_index_is_made_among_the_images_themselves(model, photos):
    for out in (photos, photos / ".", photos.parent):
        with pytest.raises(ArgumentError, match="is the folder of the images; name another folder"):
            build_index(model, photos, out, device="cpu")
    assert not list(photos.parent.rglob("index.json"))


def test_another_model_or_engine_is_refused(model, photos, out, tmp_path):
    build_index(model, photos, out, device="cpu")
    save_model(
        tmp_path / "b", build_embedder("test_resnet", weights="none", size=32, embedding_dim=8, seed=1)
    )
    with pytest.raises(ArgumentError, match="was built by model"):
        build_index(tmp_path / "b", photos, out, device="cpu")
    with pytest.raises(ArgumentError, match="uses engine 'exact'"):
        build_index(model, photos, out, engine="faiss", device="cpu")
    assert len(only(out, photos / "dog" / "1 x.png").hits) == 6


def test_queries_that_are_no_images_are_named_and_the_others_answered(model, photos, out, tmp_path):
    build_index(model, photos, out, device="cpu")
    (tmp_path / "bad.png").write_bytes(b"<html>")
    good = photos / "dog" / "1 x.png"
    found = search_images(out, [good, tmp_path / "bad.png", tmp_path / "absent.png", good], device="cpu")
    assert [bool(hits.error) for hits in found] == [False, True, True, False]
    assert found[0].hits == found[3].hits
    assert "bad.png" in found[1].error


def test_samples_leave_themselves_out(model, photos, out):
    build_index(model, photos, out, device="cpu")
    (photos / "dog" / "0 x.png").unlink()
    found = search_images(out, [], SearchOptions(k=2), sample=4)
    assert [len(hits.hits) for hits in found] == [2] * 4
    assert all(str(hit.file) != hits.query for hits in found for hit in hits.hits)


def test_thresholds_mark_or_hide(model, photos, out):
    build_index(model, photos, out, device="cpu")
    query = photos / "dog" / "1 x.png"
    assert only(out, query).hits[0].same_class is None
    with pytest.raises(ArgumentError, match="lookalike calibrate"):
        only(out, query, hide_unknown=True)
    with ImageIndex.open(out, writable=True) as index:
        index.set_facts(threshold={"similarity": 0.99999})
    hits = only(out, query)
    assert [hit.same_class for hit in hits.hits] == [True] + [False] * 5
    assert not hits.unknown
    assert len(only(out, query, hide_unknown=True).hits) == 1
    assert not only(out, photos / "кот" / "1 x.png", threshold=-1).unknown
    with pytest.raises(ArgumentError, match="threshold"):
        only(out, query, threshold=1.1)


def test_an_index_refuses_a_file_in_its_place(model, photos, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file"):
        build_index(model, photos, tmp_path / "file", device="cpu")


def test_names_that_are_not_utf8(model, photos, out):
    odd = os.fsdecode(b"caf\xe9.png")
    shutil.copy(photos / "dog" / "0 x.png", photos / "dog" / odd)
    paint(photos / "dog" / "0 x.png", seed=99)
    assert build_index(model, photos, out, device="cpu").images == 7
    assert counts(build_index(model, photos, out, device="cpu"))[3] == 7
    assert only(out, photos / "dog" / odd).hits[0].path == f"dog/{odd}"


def test_labels_that_are_not_utf8_are_plain_text_in_json(model, photos, out):
    (photos / "dog").rename(photos / os.fsdecode(b"caf\xe9"))
    build_index(model, photos, out, device="cpu")
    hits = only(out, photos / "кот" / "1 x.png", where="label != кот")
    assert {hit["label"] for hit in hits.to_dict()["hits"]} == {"caf\\udce9"}


def test_no_image_is_an_error(model, out, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError):
        build_index(model, tmp_path / "empty", out, device="cpu")


def test_readers_see_a_whole_index_while_it_is_updated(model, photos, out):
    build_index(model, photos, out, device="cpu")
    query = ImageEncoder.of(load_model(model)[0], "cpu")
    vector = query.encode([query.prepare(open_image(photos / "dog" / "1 x.png"))])
    over, reads = threading.Event(), []

    def read_on():
        while not over.is_set() or len(reads) < 4:
            with ImageIndex.open(out) as index:
                (line,) = index.search(vector, 4, fingerprint=query.fingerprint)
                reads.append([match.path for match in line])

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read_on) for _ in range(2)]
        for number in range(6):
            for name in ("0 x.png", "2 x.png"):  # deleted vectors are compacted away
                paint(photos / "dog" / name, seed=100 + 10 * number + len(name))
            build_index(model, photos, out, prune=True, device="cpu")
        over.set()
        for reader in readers:
            reader.result()
    assert len(reads) > 2
    assert all(len(line) == 4 and line[0] == "dog/1 x.png" for line in reads)


def test_parts_of_an_image_are_images_of_their_own(model, tmp_path, out):
    for name in ("a.png", "b.png"):
        paint(tmp_path / name, seed=1, size=64)
    (tmp_path / "list.csv").write_text(
        "path,label,x_1,y_1,x_2,y_2\na.png,left,0,0,32,64\nb.png,right,32,0,64,64\n", encoding="utf-8"
    )
    assert counts(build_index(model, tmp_path / "list.csv", out, device="cpu")) == (2, 0, 0, 0, 0, 0)
    assert counts(build_index(model, tmp_path / "list.csv", out, device="cpu")) == (0, 0, 0, 2, 0, 0)
    hits = only(out, tmp_path / "a.png").hits
    assert {(hit.path, hit.label) for hit in hits} == {
        ("a.png#box=0,0,32,64", "left"),
        ("b.png#box=32,0,64,64", "right"),
    }
    assert {hit.file for hit in hits} == {tmp_path / "a.png", tmp_path / "b.png"}
    assert not any(hit.missing for hit in hits)
    (tmp_path / "list.csv").write_text(
        "path,label,x_1,y_1,x_2,y_2\na.png,left,0,0,32,64\na.png,right,32,0,64,64\n", encoding="utf-8"
    )
    assert counts(build_index(model, tmp_path / "list.csv", out, device="cpu")) == (0, 1, 0, 1, 0, 0)
    assert "a.png#box=32,0,64,64" in {hit.path for hit in only(out, tmp_path / "a.png").hits}
