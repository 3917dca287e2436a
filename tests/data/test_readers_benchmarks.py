"""Published data sets in their true layouts; pictures are empty files where there are none at hand."""

import tarfile

import numpy as np
import pytest
import scipy.io

from lookalike.data import read
from lookalike.data.images import open_image
from lookalike.errors import DataError


@pytest.fixture(scope="session")
def official(shared_data, tmp_path_factory):
    """The official split files, unpacked."""
    folder = tmp_path_factory.mktemp("official")
    with tarfile.open(shared_data / "splits.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    return folder / "official_splits"


def touch(root, paths):
    for folder in {p.rpartition("/")[0] for p in paths}:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for path in paths:
        open(root / path, "wb").close()


class TestCars196:
    def test_the_archive(self, shared_data):
        table = read(shared_data / "cars196.zip")
        assert (table.name, len(table), table.num_classes) == ("cars196", 16185, 196)
        train, test = table.part("train"), table.part("test")
        assert (len(train), train.num_classes) == (8054, 98)
        assert (len(test), test.num_classes) == (8131, 98)
        assert table.class_names[0] == "AM General Hummer SUV 2000"
        assert open_image(table.file(0)).size == (112, 112)

    def annotations(self, official):
        """The official train labels; made-up test labels that complete the published counts."""
        load = lambda n: scipy.io.loadmat(official / f"Stanford_Cars_devkit/{n}.mat", squeeze_me=True)  # noqa: E731
        train, test = load("cars_train_annos")["annotations"], load("cars_test_annos")["annotations"]
        low = int((train["class"] <= 98).sum())
        made = np.where(
            np.arange(len(test)) < 8054 - low, 1 + np.arange(len(test)) % 98, 99 + np.arange(len(test)) % 98
        )
        return train, test, made

    @pytest.mark.parametrize("nested", [False, True])
    def test_the_devkit(self, official, tmp_path, nested):
        train, test, made = self.annotations(official)
        root = tmp_path / "stanford_cars"
        for part, rows in (("train", train), ("test", test)):
            at = f"cars_{part}/cars_{part}" if nested else f"cars_{part}"
            touch(root, [f"{at}/{name}" for name in rows["fname"]])
        (root / "devkit").mkdir()
        for name in ("cars_meta", "cars_train_annos", "cars_test_annos"):
            data = (official / f"Stanford_Cars_devkit/{name}.mat").read_bytes()
            (root / "devkit" / f"{name}.mat").write_bytes(data)
        with pytest.raises(DataError, match=r"cars_test_annos_withlabels\.mat is missing"):
            read(root)
        rows = np.array(list(zip(test["fname"], made, strict=True)), dtype=[("fname", "O"), ("class", "O")])
        scipy.io.savemat(root / "cars_test_annos_withlabels.mat", {"annotations": rows})
        table = read(root)
        assert len(table.part("train")) == 8054
        assert len(table.part("test")) == 8131
        assert table.class_names[0] == "AM General Hummer SUV 2000"
        assert table.file(9000).is_file()
        table.file(9000).unlink()
        with pytest.raises(DataError, match="1 of 16,185 pictures are missing below"):
            read(root)
        assert len(read(root, verify=False)) == 16185

    def test_a_wrong_count_is_told(self, tmp_path):
        rows = np.array([("a.jpg", 1), ("b.jpg", 99)], dtype=[("relative_im_path", "O"), ("class", "O")])
        names = np.array([f"car {i}" for i in range(196)], dtype=object)
        scipy.io.savemat(tmp_path / "cars_annos.mat", {"annotations": rows, "class_names": names})
        with pytest.raises(DataError, match=r"1 training pictures instead of 8,054 \(8,053 missing\)"):
            read(tmp_path)
        assert read(tmp_path, verify=False).split.tolist() == ["train", "test"]
