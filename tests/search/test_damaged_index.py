"""An index that is damaged says so in one line, or is repaired on request."""

import json
import shutil

import numpy as np
import pytest

from lookalike.errors import FileError
from lookalike.search import ImageIndex

from .small_index import DIM, FINGERPRINT, fill, unit


@pytest.mark.parametrize("writable", [False, True])
def test_images_whose_vectors_are_lost_are_reported_and_leave_the_catalog_on_request(index, folder, writable):
    fill(index, unit(4))
    index.engine.delete(index.catalog.ids()[:1])
    index.close()
    with pytest.raises(
        FileError, match=r"has lost 1 of the 4 vectors .* give the command `lookalike index` again"
    ):
        ImageIndex.open(folder, writable=writable)
    with ImageIndex.open(folder, writable=True, repair=True) as writer:
        assert len(writer) == writer.engine.count() == 3


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda f: (f / "index.json").unlink(), "no index in"),
        (lambda f: (f / "index.json").write_text("{"), "damaged"),
        (lambda f: (f / "index.json").write_text("[]"), "damaged"),
        (lambda f: (f / "index.json").write_text(json.dumps({"format": 1})), "has format 1"),
        (lambda f: edit(f, dim="x"), "damaged .* not as they were written"),
        (lambda f: edit(f, dim=0), "damaged"),
        (lambda f: edit(f, engine=3), "damaged"),
        (lambda f: edit(f, threshold="x"), "damaged"),
        (lambda f: edit(f, threshold={}), "damaged .*similarity"),
        (lambda f: edit(f, threshold={"similarity": 7}), "damaged .*cosine"),
        (lambda f: shutil.rmtree(f / "vectors"), "has lost 3 of the 3 vectors .*build it again"),
        (lambda f: (f / "vectors" / "ids-0.i64").unlink(), "has lost 3 of the 3 vectors .*build it again"),
        (lambda f: (f / "catalog.sqlite").write_bytes(b"no database" * 100), "damaged or missing"),
        (lambda f: (f / "catalog.sqlite").unlink(), "damaged or missing"),
    ],
)
@pytest.mark.parametrize("writable", [False, True])
def test_damage_is_reported_in_one_line(index, folder, damage, words, writable):
    fill(index, unit(3))
    index.close()
    damage(folder)
    with pytest.raises(FileError, match=words):
        ImageIndex.open(folder, writable=writable)


@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_a_vector_that_is_not_a_number_is_reported(tmp_path, engine):
    if engine == "faiss":
        pytest.importorskip("faiss", reason="pip install 'lookalike[faiss]' is absent")
    with ImageIndex.create(tmp_path / engine, fingerprint=FINGERPRINT, dim=DIM, engine=engine) as made:
        fill(made, unit(30))
    file = tmp_path / engine / "vectors" / "vectors-0.f32"
    content = np.fromfile(file, np.float32)
    content[5 * DIM : 6 * DIM] = np.nan
    content.tofile(file)
    with ImageIndex.open(tmp_path / engine) as index, pytest.raises(FileError, match=r"f32' is damaged"):
        index.search(unit(2), 3, fingerprint=FINGERPRINT)


def edit(folder, **changes):
    file = folder / "index.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
