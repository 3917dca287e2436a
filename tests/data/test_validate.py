import json
import shutil

import numpy as np
import pytest
from PIL import Image
from zoo import WHOLE, pattern

from lookalike.data.image_io import open_image
from lookalike.data.labels import join_labels
from lookalike.data.read import read
from lookalike.data.validate import check_data, without


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


def found(report, kind):
    return sorted(map(sorted, report.cases(kind)))


def test_every_trouble_is_found_in_one_pass(troubled):
    report = check_data(troubled)
    assert found(report, "unreadable") == [["test/dog/half.jpg"]]
    assert "cannot be decoded" in report.reasons["test/dog/half.jpg"]
    assert found(report, "duplicates") == [["train/ant/1 copy.jpg", "train/ant/1.jpg"]]
    assert found(report, "conflicts") == [
        ["test/dog/exact.jpg", "train/bee/2.jpg"],
        ["train/ant/bee.jpg", "train/bee/1.jpg"],
    ]
    assert found(report, "near_duplicates") == [["test/dog/again.png", "train/ant/2.jpg"]]
    assert sorted(case[0] for case in report.cases("leaks")) == ["test/dog/again.png", "test/dog/exact.jpg"]
    assert found(report, "shared_classes") == [["ant"]]
    assert found(report, "singletons") == [["cat"]]
    assert report.splits == {"train": 7, "test": 6}
    assert (report.images, report.classes, report.clean) == (13, 4, False)


def test_the_report_is_text_and_json(troubled):
    report = check_data(troubled)
    text = "\n".join(report.lines())
    for words in (
        "13 images, 4 classes (1 to 5, median 3.5 images each)",
        "split: train 7, test 6",
        "error: 1 files cannot be read",
        "error: 2 test images are also in another split",
        "warning: 1 classes have one image",
        "7 images should be removed",
    ):
        assert words in text
    assert json.loads(json.dumps(report.to_dict()))["reasons"] == report.reasons


def test_what_is_left_is_clean(troubled):
    left = without(troubled, check_data(troubled))
    assert len(left) == 6
    assert check_data(left).clean


def test_a_sound_data_set(photos):
    report = check_data(read(photos))
    assert report.clean
    assert report.lines()[-1] == "nothing harmful found"
    assert report.near == []


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def noise(seed, size=(40, 50, 3), top=256, dtype=np.uint8):
    return np.random.default_rng(seed).integers(0, top, size).astype(dtype)


def test_odd_images_are_counted_by_kind(tmp_path):
    root, exif = tmp_path / "d", Image.Exif()
    exif[0x0112] = 6
    save(root / "a/whole.jpg", noise(0))
    save(root / "a/turned.jpg", noise(1), exif=exif)
    save(root / "a/white.png", np.full((30, 30, 3), 255, np.uint8))
    save(root / "b/dark.png", noise(2, (5, 5, 3), 20).repeat(9, 0).repeat(9, 1))
    save(root / "b/tiny.png", noise(3, (8, 60, 3)))
    save(root / "b/scan.png", np.kron(noise(4, (6, 6), 4096, np.uint16), np.ones((8, 8), np.uint16)))
    (root / "b/text.png").write_bytes(WHOLE["damaged_text.png"])
    report = check_data(read(root))
    kinds = {kind: [case[0] for case in finding.cases] for kind, finding in report.findings.items()}
    assert kinds["rotated"] == ["a/turned.jpg"]
    assert kinds["blank"] == ["a/white.png"]
    assert kinds["dark"] == ["b/dark.png"]
    assert kinds["tiny"] == ["b/text.png", "b/tiny.png"]
    assert kinds["range_12_bits"] == ["b/scan.png"]
    assert kinds["damaged_metadata"] == ["b/text.png"]
    assert report.formats == {"PNG": 5, "JPEG": 2}
    assert report.reasons == {"a/white.png": "blank: one plain color"}


def test_labels_that_may_mean_one_class_are_reported_and_joined_on_request(tmp_path):
    for name in ("cat", "Cat", "owl", "7", "07"):
        for number in range(2):
            save(tmp_path / "d" / name / f"{number}.png", noise(hash(name) % 999 + number))
    table = read(tmp_path / "d")
    assert found(check_data(table), "similar_labels") == [["07", "7"], ["Cat", "cat"]]
    joined = join_labels(table)
    assert joined.num_classes == 3
    assert not check_data(joined).cases("similar_labels")
    assert len(joined) == len(table)


def test_images_of_another_data_set_are_found(photos, tmp_path):
    other = tmp_path / "other"
    for path in ("x/1.jpg", "y/2.jpg"):
        save(other / path, noise(len(path) + ord(path[0])))
    shutil.copy(photos / "ant/2.jpg", other / "x/copy.jpg")
    pattern((60, 40), seed=9).save(photos / "bee/1.jpg", quality=60)
    pattern((90, 60), seed=9).save(other / "y/larger.png")
    report = check_data(read(photos), against=read(other))
    assert report.cases("also_in_other") == [["ant/2.jpg", "x/copy.jpg"], ["bee/1.jpg", "y/larger.png"]]
    assert report.reasons["ant/2.jpg"] == "also in other: x/copy.jpg"


def test_a_thousand_frames_of_one_scene_are_one_group(tmp_path):
    base = noise(0, (8, 8, 3), 190) + 30
    for number in range(100):
        frame = base + np.random.default_rng(number).integers(-2, 3, base.shape)
        save(
            tmp_path / "d" / f"scene{number % 4}" / f"{number}.png",
            frame.astype(np.uint8).repeat(4, 0).repeat(4, 1),
        )
    report = check_data(read(tmp_path / "d"))
    assert [len(group) for group in report.near] == [100]
    assert len(json.dumps(report.to_dict())) < 20_000
