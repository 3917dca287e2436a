"""Verification fails for an export that differs, does not run, or needs this package."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import FileError
from lookalike.export import outside
from lookalike.export.projector import unit
from lookalike.export.source import data_source
from lookalike.export.timm import export_timm
from lookalike.export.verify import ExportError, compare, verify

from .conftest import build_small


def vectors(count=20, seed=0):
    return unit(np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32))


def test_equal_vectors_agree():
    found = compare(vectors(), vectors())
    assert (found.images, found.largest_difference, found.same_nearest) == (20, 0, True)
    assert found.least_cosine == pytest.approx(1)


def test_other_neighbors_are_seen():
    ours = vectors()
    theirs = ours.copy()
    theirs[[0, 1]] = theirs[[1, 0]]
    assert not compare(ours, theirs).same_nearest


def test_neighbors_at_the_same_similarity_may_trade_places():
    ours = np.array([[1, 0], [0.6, 0.8], [0.6, -0.8], [-1, 0]], dtype=np.float32)
    turned = ours * np.array([1, -1], dtype=np.float32)
    assert compare(ours, turned).same_nearest


def test_a_model_with_other_weights_fails(tmp_path, table):
    export_timm(build_small(seed=1), tmp_path / "model")
    with pytest.raises(ExportError, match="does not give the model's embeddings: 12 images"):
        verify("timm", tmp_path / "model", build_small(), table)


def test_a_file_that_does_not_run_is_one_line(tmp_path, table):
    (tmp_path / "model.onnx").write_bytes(b"nothing")
    with pytest.raises(ExportError, match="does not run outside lookalike") as caught:
        verify("onnx", tmp_path / "model.onnx", build_small(), table)
    assert "\n" not in str(caught.value)


def test_the_other_process_cannot_import_this_package(tmp_path):
    """Its script refuses the import, so an export that needed it would fail there."""
    np.save(tmp_path / "images.npy", np.zeros((1, 3, 4, 4), np.uint8))
    script = Path(outside.__file__).read_text(encoding="utf-8")
    broken = tmp_path / "broken.py"
    broken.write_text(script.replace("    import torch\n", "    import lookalike.models\n"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", str(broken), "pt2", "none", str(tmp_path / "images.npy"), "out.npy"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert (
        "ModuleNotFoundError: No module named 'lookalike.models'; 'lookalike' is not a package" in done.stderr
    )


def test_where_a_runs_images_are(run, folder):
    assert data_source(run) == str(folder)
    (run / "data.json").unlink()
    with pytest.raises(FileError, match=r"does not say where its images are; name images .* --images DATA"):
        data_source(run)
    (run / "data.json").write_text('{"source": "/no/longer/here"}', encoding="utf-8")
    with pytest.raises(FileError, match="'/no/longer/here' is gone"):
        data_source(run)
    (run / "data.json").write_text("{", encoding="utf-8")
    with pytest.raises(FileError, match="cannot read"):
        data_source(run)
    with pytest.raises(FileError, match="there is no run directory"):
        data_source(run / "nowhere")
