"""ONNX and pt2 files run without this package, at any batch size, and describe their input."""

import json

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from lookalike.errors import MissingExtraError
from lookalike.export.deployed import Deployed
from lookalike.export.programs import export_onnx, export_pt2
from lookalike.export.projector import unit
from lookalike.export.timm import export_timm
from lookalike.export.verify import ExportError, verify

from .conftest import build_small


def test_deployed_is_the_unit_embedding(pixels):
    embedder = build_small()
    with torch.no_grad():
        ours, theirs = unit(embedder(pixels).numpy()), Deployed(embedder)(pixels).numpy()
    np.testing.assert_allclose(theirs, ours, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "views"), [({}, 1), ({"pooling": "concat"}, 2), ({"backbone": "test_vit", "resize": 80}, 1)]
)
def test_onnx(tmp_path, table, pixels, settings, views):
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime (extra 'dev') is absent")
    embedder, file = build_small(**settings), tmp_path / "model.onnx"
    embedder.set_views(views)
    export_onnx(embedder, file)
    assert verify("onnx", file, embedder, table).largest_difference < 1e-4
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    assert (
        facts["resize"] == f"the short side to 80 pixels, {embedder.preprocessing.interpolation}, antialiased"
    )
    assert [(entry.name, entry.type) for entry in session.get_inputs()] == [("images", "tensor(uint8)")]
    for count in (1, 5):
        (found,) = session.run(None, {"images": pixels[:count].numpy()})
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"], "one file"


def test_pt2(tmp_path, table):
    embedder, file = build_small(), tmp_path / "model.pt2"
    export_pt2(embedder, file)
    assert verify("pt2", file, embedder, table).largest_difference < 1e-4
    extra = {"description.json": ""}
    torch.export.load(file, extra_files=extra)
    assert json.loads(extra["description.json"])["input"].startswith("uint8 RGB, (batch, 3, 64, 64)")


@pytest.mark.parametrize("kind", ["onnx", "pt2"])
def test_a_backbone_that_takes_one_batch_size_only_is_one_line(tmp_path, monkeypatch, kind):
    if kind == "onnx":
        pytest.importorskip("onnxscript", reason="onnxscript is absent")
    monkeypatch.setattr(
        Deployed, "forward", lambda self, images: self.embedder(images).reshape(len(images), -1)
    )
    with pytest.raises(
        ExportError, match="cannot express backbone 'test_resnet' for any batch size"
    ) as caught:
        EXPORTS[kind](build_small(), tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_missing_exporter_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'lookalike\[onnx\]'"):
        export_onnx(build_small(), tmp_path / "model.onnx")


EXPORTS = {
    "timm": lambda embedder, target: export_timm(embedder, target, description=""),
    "onnx": export_onnx,
    "pt2": export_pt2,
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_full_disk_is_an_error_that_leaves_nothing(tmp_path, kind):
    """As here, where no file may grow beyond 50 kB; torch itself would end the process."""
    resource = pytest.importorskip("resource", reason="this system has no limits of files")
    if kind == "onnx":
        pytest.importorskip("onnxscript", reason="onnxscript is absent")
    embedder = build_small()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises((OSError, SafetensorError), match="File too large"):
            EXPORTS[kind](embedder, tmp_path / "out" / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.rglob("*model*")) == []
