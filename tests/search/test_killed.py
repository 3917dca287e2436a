"""A kill at any moment of indexing leaves the old or a resumable index, and no vector of a wrong image."""

import os
import random
import signal
import time

import numpy as np
import pytest
import torch

from lookalike.data.image_bytes import read_image
from lookalike.models.checkpoint import load_model
from lookalike.search import ENGINES, ImageIndex
from lookalike.search import build as build_module
from lookalike.search import update as update_module
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder

from .conftest import paint

MOMENTS = 40  # per engine
IMAGES = 30


def projection(self, tensors):
    """In place of the network, so that a run takes a moment: a fixed projection of 4 x 4 pixels."""
    small = (
        torch.stack([tensor[:, ::8, ::8].reshape(-1) for tensor in tensors])
        if tensors
        else torch.empty(0, 48)
    )
    draws = np.random.default_rng(0).standard_normal((48, self.dim)).astype(np.float32)
    return (small.float().numpy() - 128) @ draws


def true_vectors(encoder, files):
    """SHA-256 of each file -> its unit vector."""
    read = [read_image(file) for file in files]
    vectors = encoder.encode([encoder.prepare(image) for _, image in read])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return {digest: vector for (digest, _), vector in zip(read, vectors, strict=True)}


def check(folder, history):
    """Whatever the index shows has the vector of its own content, of now or of an earlier state of the file."""
    with ImageIndex.open(folder) as index:
        ids = index.catalog.ids().tolist()
        if not ids:
            return 0
        digests = {item: digest for digest, item in index.catalog.items_of_digests(list(history)).items()}
        assert set(ids) <= set(digests), "an image whose content never was"
        for item, vector in zip(ids, index.vectors(ids), strict=True):
            np.testing.assert_allclose(vector, history[digests[item]], atol=1e-5)
        found = index.search(index.vectors(ids), 1, fingerprint=index.facts.fingerprint)
        assert [line[0].id for line in found] == ids
    return len(ids)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "engine", ["exact", "faiss", "pgvector"]
)  # Milvus Lite's threads do not survive a fork
def test_a_kill_at_any_moment(model, tmp_path, monkeypatch, request, engine):
    entry = ENGINES[engine]
    if entry.package:
        pytest.importorskip(entry.package, reason=f"pip install 'lookalike[{entry.extra}]' is absent")
    uri = request.getfixturevalue(f"{engine}_uri") if entry.uri else None
    loaded = load_model(model)
    encoder = ImageEncoder.of(loaded[0], "cpu")
    monkeypatch.setattr(build_module, "load_model", lambda _: loaded)
    monkeypatch.setattr(ImageEncoder, "of", lambda *_: encoder)
    monkeypatch.setattr(ImageEncoder, "encode", projection)
    monkeypatch.setattr(update_module, "_READ_AHEAD", 3)
    monkeypatch.setattr(update_module, "COMMIT_IMAGES", 2)
    photos, out = tmp_path / "photos", tmp_path / "index"
    for number in range(IMAGES):
        paint(photos / f"class{number % 4}" / f"{number}.png", seed=number)
    draws = random.Random(0)
    history = true_vectors(encoder, photos.rglob("*.png"))

    def start_building(folder):
        """A child process that builds an index; forked, so that it starts in no time."""
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            code = 1
            try:
                build_index(model, photos, folder, engine=engine, uri=uri, prune=True, device="cpu")
                code = 0
            finally:
                os._exit(code)
        return child

    for warm in ("first", "timed"):
        began = time.perf_counter()
        os.waitpid(start_building(tmp_path / warm), 0)
    whole = time.perf_counter() - began
    changed, ended, seen = 1000, 0, 0
    for moment in range(MOMENTS):
        child = start_building(out)
        time.sleep(draws.uniform(0, 1.2 * whole))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        ended += os.WIFSIGNALED(status)
        whole *= 1.1 if os.WIFSIGNALED(status) else 0.7  # a busy machine's runs take a changing time
        if (out / "index.json").exists():
            seen = max(seen, check(out, history))
        if os.WIFEXITED(status) or moment % 5 == 4:
            assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
            repainted = [photos / f"class{n % 4}" / f"{n}.png" for n in draws.sample(range(IMAGES), 10)]
            for file in repainted:  # other contents under the same names
                paint(file, seed=changed)
                changed += 1
            history |= true_vectors(encoder, repainted)
    assert ended > MOMENTS // 10, "too few runs were ended before they were done"
    assert seen > 0
    build_index(model, photos, out, engine=engine, uri=uri, prune=True, device="cpu")
    now = {read_image(file)[0] for file in photos.rglob("*.png")}
    with ImageIndex.open(out) as index:
        assert set(index.catalog.items_of_digests(list(history))) == now
        assert index.engine.count() == len(now)
    check(out, history)
