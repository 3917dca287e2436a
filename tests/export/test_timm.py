"""A timm folder gives the model's embeddings with timm alone, for every pooling that timm has."""

import json

import pytest
import timm
import torch

from lookalike.errors import ArgumentError, FileError
from lookalike.export.timm import POOLINGS, export_timm
from lookalike.export.verify import verify
from lookalike.models import build_embedder

from .conftest import build_small


@pytest.mark.parametrize("pooling", POOLINGS)
def test_the_folder_gives_the_embeddings_under_every_pooling(tmp_path, pixels, pooling):
    embedder = build_small(pooling=pooling)
    export_timm(embedder, tmp_path / "model")
    model = timm.create_model(f"local-dir:{tmp_path / 'model'}", pretrained=True).eval()
    with torch.no_grad():
        torch.testing.assert_close(
            model(embedder.normalize_input(pixels)), embedder(pixels), atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize(
    ("backbone", "settings"),
    [
        ("test_vit", {"pooling": "average", "size": 64, "resize": 64}),
        ("test_vit3", {"pooling": "maximum", "size": 96, "resize": 96}),
        ("test_efficientnet", {"embedding_dim": None}),
        ("test_efficientnet", {"bias": False}),
        ("test_convnext3", {"size": 96, "resize": 96}),
    ],
)
def test_other_families_or_a_refusal_that_names_what_works(
    tmp_path, table, in_this_process, backbone, settings
):
    embedder = build_small(backbone, **settings)
    try:
        export_timm(embedder, tmp_path / "model")
    except ArgumentError as error:
        assert "--onnx or --pt2" in str(error)  # noqa: PT017
        assert backbone == "test_convnext3"
    else:
        assert verify("timm", tmp_path / "model", embedder, table).same_nearest


def test_the_preprocessing_is_timms(tmp_path):
    embedder = build_small()
    export_timm(embedder, tmp_path / "model", description="of toys")
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    facts = timm.data.resolve_model_data_config(timm.create_model(f"local-dir:{tmp_path / 'model'}"))
    assert list(facts["input_size"]) == [3, 64, 64]
    assert int(64 / facts["crop_pct"]) == 80
    assert tuple(facts["mean"]) == embedder.preprocessing.mean
    assert config["pretrained_cfg"]["description"] == "of toys"
    assert config["num_classes"] == 8
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "model").iterdir()}
    assert len(set(modes.values())) == 1, modes


@pytest.mark.parametrize("size", [64, 75, 96, 224])
@pytest.mark.parametrize("extra", [0, 1, 7, 32])
def test_timm_resizes_to_the_same_number_of_pixels(size, extra):
    from lookalike.export.timm import _pretrained_cfg

    embedder = build_small(size=size, resize=size + extra)
    assert int(size / _pretrained_cfg(embedder, "")["crop_pct"]) == size + extra


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pooling": "concat"}, r"no pooling 'concat' \(it has: .* train with model.pooling=catavgmax"),
        ({"norm": "layer_norm"}, "with norm .layer_norm."),
        ({"backbone": "bn_inception"}, "not one of timm's"),
    ],
)
def test_what_timm_lacks_is_refused(tmp_path, settings, said):
    with pytest.raises(ArgumentError, match=said):
        export_timm(build_small(**settings), tmp_path / "model")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_a_folder_with_other_files_stays(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"x")
    with pytest.raises(FileError, match=r"holds other files \(photo\.jpg\)"):
        export_timm(build_small(), tmp_path)
    export_timm(build_small(), tmp_path / "model")
    export_timm(build_small(), tmp_path / "model")  # an earlier export may be replaced
    assert sorted(file.name for file in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
    ]


def test_the_exported_folder_is_a_backbone(tmp_path):
    export_timm(build_small(), tmp_path / "model")
    again = build_embedder(f"local-dir:{tmp_path / 'model'}", embedding_dim=4)
    assert again.preprocessing.size == 64
    assert again.config.architecture.name == "test_resnet"
    assert again.config.weights_origin == f"local-dir:{tmp_path / 'model'}"


@pytest.mark.parametrize(
    ("dim", "loader", "output"),
    [(8, "AutoModelForImageClassification", "logits"), (None, "AutoModel", "pooler_output")],
)
def test_transformers_opens_the_folder(tmp_path, pixels, dim, loader, output):
    transformers = pytest.importorskip("transformers", reason="the package transformers is absent")
    embedder = build_small(embedding_dim=dim)
    export_timm(embedder, tmp_path / "model")
    model = getattr(transformers, loader).from_pretrained(str(tmp_path / "model")).eval()
    with torch.no_grad():
        found = model(pixel_values=embedder.normalize_input(pixels))[output]
        torch.testing.assert_close(found, embedder(pixels), atol=1e-5, rtol=1e-4)
