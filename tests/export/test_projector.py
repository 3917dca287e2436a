"""The folder for TensorBoard's projector: one line per image, thumbnails in the same order."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lookalike.embedding import embed, embed_to_file
from lookalike.export.projector import LEAST_THUMBNAIL, sprite, thumbnail_side, write_projector

from .conftest import build_small


def test_files_name_each_other_and_keep_the_order(tmp_path, table):
    embeddings = embed(build_small(), table, workers=0)
    write_projector(tmp_path, embeddings, table)
    vectors = np.loadtxt(tmp_path / "vectors.tsv", delimiter="\t")
    header, *known = (tmp_path / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert header == "class\tpath"
    assert [line.split("\t")[1] for line in known] == list(table.paths)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    config = (tmp_path / "projector_config.pbtxt").read_text(encoding="utf-8")
    assert all(
        (tmp_path / name).is_file() and name in config
        for name in ("vectors.tsv", "metadata.tsv", "sprite.png")
    )
    with Image.open(tmp_path / "sprite.png") as image:
        assert image.size == (256, 256)  # 12 images: four columns of 64 pixels


def test_thumbnails_stand_row_by_row(table):
    whole = sprite(table, 16)
    alone = sprite(table.rows([5]), 16)
    assert (whole[:, 16:32, 16:32] == alone).all()


@pytest.mark.parametrize(("count", "side"), [(1, 64), (16384, 64), (16385, 63), (10**6, 8), (2 * 10**6, 5)])
def test_the_sprite_has_at_most_8192_pixels_a_side(count, side):
    assert thumbnail_side(count) == side
    assert (side >= LEAST_THUMBNAIL) == (count <= 10**6)


def test_a_part_of_an_image_is_shown_as_that_part(table):
    boxes = np.tile([0, 0, 8, 8], (len(table), 1))
    parts = replace(table, boxes=boxes)
    with Image.open(table.file(0)) as image:
        corner = image.convert("RGB").crop((0, 0, 8, 8))
    assert (sprite(parts, 8)[:, :8, :8].permute(1, 2, 0).numpy() == np.asarray(corner)).all()


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_vectors_of_a_file_serve_the_projector_too(tmp_path, table, suffix):
    model = build_small()
    written = embed_to_file(model, table, tmp_path / f"vectors{suffix}")
    np.testing.assert_array_equal(written.matrix, embed(model, table).matrix)
    assert written.paths == table.paths


def test_names_of_strangers_are_text_to_a_terminal_and_to_a_spreadsheet(tmp_path, table):
    embeddings = embed(build_small(), table, workers=0)
    names = ("=cmd|calc", "\x1b[31mred", *embeddings.class_names[2:])
    write_projector(tmp_path, replace(embeddings, class_names=names), table)
    text = (tmp_path / "metadata.tsv").read_text(encoding="utf-8")
    assert "\n'=cmd|calc\t" in text
    assert "\n\\u001b[31mred\t" in text
