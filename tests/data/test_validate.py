import json
import shutil

import numpy as np
import pytest
from PIL import Image

from lookalike.data.image_io import open_image
from lookalike.data.read import read
from lookalike.data.validate import _near_pairs, check_data, without


@pytest.fixture
def troubled(tmp_path, image):
    """train/{ant,bee,cat}, test/{dog,ant}: one of every trouble."""
    root = tmp_path / "d"
    smooth = np.add.outer(np.arange(60), 3 * np.arange(80)) % 251
    for seed, path in enumerate(
        (
            "train/ant/1.jpg",
            "train/ant/2.jpg",
            "train/bee/1.jpg",
            "train/bee/2.jpg",
            "test/dog/1.jpg",
            "test/dog/2.jpg",
        )
    ):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        turned = np.stack([np.roll(smooth, 17 * seed + 5 * c, axis=c % 2) for c in range(3)], axis=2)
        Image.fromarray(turned.astype(np.uint8)).save(root / path, quality=95)
    shutil.copy(root / "train/ant/1.jpg", root / "train/ant/1 copy.jpg")
    shutil.copy(root / "train/bee/1.jpg", root / "train/ant/bee.jpg")
    shutil.copy(root / "train/bee/2.jpg", root / "test/dog/exact.jpg")
    open_image(root / "train/ant/2.jpg").resize((120, 90)).save(root / "test/dog/again.png")
    (root / "test/dog/half.jpg").write_bytes((root / "test/dog/1.jpg").read_bytes()[:400])
    image(root / "train/cat/only.jpg", seed=99)
    image(root / "test/ant/9.jpg", seed=98)
    return read(root)


def test_every_trouble_is_found_in_one_pass(troubled):
    report = check_data(troubled)
    assert list(report.unreadable) == ["test/dog/half.jpg"]
    assert "cannot be decoded" in report.unreadable["test/dog/half.jpg"]
    assert report.duplicates == [["train/ant/1 copy.jpg", "train/ant/1.jpg"]]
    assert sorted(map(sorted, report.conflicts)) == [
        ["test/dog/exact.jpg", "train/bee/2.jpg"],
        ["train/ant/bee.jpg", "train/bee/1.jpg"],
    ]
    assert [set(pair) for pair in report.near] == [{"train/ant/2.jpg", "test/dog/again.png"}]
    assert report.leaks == ["test/dog/again.png", "test/dog/exact.jpg"]
    assert report.shared_classes == ["ant"]
    assert report.lone == ["cat"]
    assert report.parts == {"train": 7, "test": 6}
    assert (report.images, report.classes, report.clean) == (13, 4, False)


def test_the_report_is_text_and_json(troubled):
    report = check_data(troubled)
    text = "\n".join(report.lines())
    for words in (
        "13 images, 4 classes (1 to 5, median 3.5 images each)",
        "split: train 7, test 6",
        "1 files cannot be read",
        "2 test images are also in another part",
        "1 classes have one image",
        "7 images should go",
    ):
        assert words in text
    assert json.loads(json.dumps(report.to_dict()))["leaks"] == report.leaks


def test_what_is_left_is_clean(troubled):
    left = without(troubled, check_data(troubled))
    assert len(left) == 6
    assert check_data(left).clean


def test_a_sound_data_set(photos):
    report = check_data(read(photos))
    assert report.clean
    assert report.lines()[-1] == "nothing harmful found"
    assert report.near == []


@pytest.mark.parametrize("block", [1, 3, 50])
def test_near_pairs_agree_with_loops_at_any_block_size(block):
    looks = list(np.random.default_rng(0).uniform(0, 255, (12, 16, 16)).astype(np.float32))
    looks[7] = looks[2] * 0.5 + 3
    looks[11] = looks[0].copy()
    looks[4] = None
    looks[5] = np.full((16, 16), 9, np.float32)
    assert _near_pairs(looks, block) == [(0, 11), (2, 7)]
