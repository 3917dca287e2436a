"""An export is in place only after its check, in every format; what was there before stays otherwise."""

import typing

import pytest

from lookalike.export import checked
from lookalike.export.checked import export_checked
from lookalike.export.verify import ExportError, Kind

from .conftest import build_small


def content(target):
    """What is at a path, a file or a folder."""
    if target.is_dir():
        return {file.name: file.read_bytes() for file in target.iterdir()}
    return target.read_bytes() if target.exists() else None


@pytest.mark.parametrize("kind", typing.get_args(Kind))
def test_an_export_that_fails_its_check_is_not_put_in_place(
    kind, tmp_path, table, in_this_process, monkeypatch
):
    if kind == "onnx":
        pytest.importorskip("onnxscript", reason="onnxscript is absent")
        pytest.importorskip("onnxruntime", reason="onnxruntime is absent")
    target = tmp_path / f"model.{kind}"

    def refuse(kind, made, embedder, table):
        assert content(made)
        raise ExportError("not the same")

    before = None
    for embedder in (build_small(), build_small(seed=1)):
        with monkeypatch.context() as patched:
            patched.setattr(checked, "verify", refuse)
            with pytest.raises(ExportError, match="not the same"):
                export_checked(kind, embedder, target, table)
        assert content(target) == before
        assert [path for path in tmp_path.iterdir() if path != target] == [], "something is left behind"
        if before is None:
            assert export_checked(kind, embedder, target, table).same_nearest
            before = content(target)
            assert before
