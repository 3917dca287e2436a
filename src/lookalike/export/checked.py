"""An export that is put in place only after it has given the model's embeddings outside this package."""

from pathlib import Path

from lookalike.data.dataset import LabeledImages
from lookalike.export.programs import export_onnx, export_pt2
from lookalike.export.timm import export_timm
from lookalike.export.verify import Agreement, Kind, verify
from lookalike.models.embedder import Embedder


def export_checked(
    kind: Kind, embedder: Embedder, target: Path, table: LabeledImages, *, description: str = ""
) -> Agreement:
    """Writes `target`, whole or not at all.

    Args:
        kind: "timm" (a folder), "onnx" or "pt2".
        table: images to compare embeddings on.
        description: of a timm model, in one line.

    Raises:
        ArgumentError, FileError, MissingExtraError, ExportError: as the function of this kind, and as `verify`.
    """
    found: list[Agreement] = []

    def check(made: Path) -> None:
        found.append(verify(kind, made, embedder, table))

    if kind == "timm":
        export_timm(embedder, target, description=description, check=check)
    elif kind == "onnx":
        export_onnx(embedder, target, check=check)
    else:
        export_pt2(embedder, target, check=check)
    return found[0]
