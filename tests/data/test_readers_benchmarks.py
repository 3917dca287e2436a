"""Published data sets in their true layouts; images are empty files where there are none at hand."""

import json
import tarfile
import zipfile

import numpy as np
import pytest
import scipy.io

from lookalike.data.image_io import open_image
from lookalike.data.read import read
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

    def test_the_devkit(self, official, tmp_path):
        train, test, made = self.annotations(official)
        root = tmp_path / "stanford_cars"
        (root / "devkit").mkdir(parents=True)
        for name in ("cars_meta", "cars_train_annos", "cars_test_annos"):
            data = (official / f"Stanford_Cars_devkit/{name}.mat").read_bytes()
            (root / "devkit" / f"{name}.mat").write_bytes(data)
        with pytest.raises(DataError, match=r"cars_test_annos_withlabels\.mat is missing"):
            read(root)
        rows = np.array(list(zip(test["fname"], made, strict=True)), dtype=[("fname", "O"), ("class", "O")])
        scipy.io.savemat(root / "cars_test_annos_withlabels.mat", {"annotations": rows})
        table = read(root, verify=False)
        assert len(table.part("train")) == 8054
        assert len(table.part("test")) == 8131
        assert table.class_names[0] == "AM General Hummer SUV 2000"
        assert table.paths[0] == "cars_train/00001.jpg"
        touch(root, [f"cars_train/cars_train/{name}" for name in train["fname"][:-1]])
        with pytest.raises(
            DataError, match=r"8,042 of 16,185 images are missing below .* first cars_train/cars_train"
        ):
            read(root)
        (root / "cars_test" / "cars_test").mkdir(parents=True)
        assert read(root, verify=False).paths[-1].startswith("cars_test/cars_test/")

    def test_a_wrong_count_is_reported(self, tmp_path):
        rows = np.array([("a.jpg", 1), ("b.jpg", 99)], dtype=[("relative_im_path", "O"), ("class", "O")])
        names = np.array([f"car {i}" for i in range(196)], dtype=object)
        scipy.io.savemat(tmp_path / "cars_annos.mat", {"annotations": rows, "class_names": names})
        with pytest.raises(DataError, match=r"1 training images instead of 8,054 \(8,053 missing\)"):
            read(tmp_path)
        assert read(tmp_path, verify=False).split.tolist() == ["train", "test"]


class TestCub200:
    def test_the_official_lists(self, official):
        table = read(official / "CUB_200_2011", verify=False)
        train, test = table.part("train"), table.part("test")
        assert (len(train), train.num_classes, len(test), test.num_classes) == (5864, 100, 5924, 100)
        assert table.class_names[0] == "001.Black_footed_Albatross"
        assert table.paths[0] == "images/001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg"

    @pytest.fixture
    def tree(self, official, tmp_path):
        """The archive's folder, with empty images."""
        root = tmp_path / "CUB_200_2011"
        lines = (official / "CUB_200_2011" / "images.txt").read_text().splitlines()
        touch(root / "images", [line.split()[1] for line in lines])
        return root

    def test_class_folders_alone_are_recognized_and_counted(self, tree):
        table = read(tree)
        assert (table.name, len(table.part("train")), len(table.part("test"))) == ("cub200", 5864, 5924)
        assert len(read(tree / "images")) == 11788
        assert len(read(tree.parent)) == 11788
        gone = next((tree / "images" / table.class_names[150]).iterdir())
        gone.unlink()
        with pytest.raises(DataError, match=r"cub200: 5,923 test images instead of 5,924 \(1 missing\)"):
            read(tree)

    def test_the_older_edition_is_refused(self, tmp_path):
        first = "001.Black_footed_Albatross"
        touch(tmp_path / "images", [f"{first}/{i}.jpg" for i in range(3)] + ["002.Laysan_Albatross/1.jpg"])
        with pytest.raises(DataError, match="4 training images instead of 5,864"):
            read(tmp_path, layout="cub200")
        assert "looks like cub200, but is not all of it" in read(tmp_path).notes[0]
        (tmp_path / "lists").mkdir()
        with pytest.raises(DataError, match="this is CUB-200-2010"):
            read(tmp_path)


class TestInShop:
    def test_the_official_list(self, official):
        table = read(official / "In-Shop", verify=False)
        train, test = table.part("train"), table.part("test")
        assert (len(train), train.num_classes, test.num_classes) == (25882, 3997, 3985)
        assert (len(test.queries()), len(test.gallery())) == (14218, 12612)
        asked, found = (set(test.labels[rows].tolist()) for rows in (test.queries(), test.gallery()))
        assert asked == found
        with pytest.raises(DataError, match=r"52,712 of 52,712 images are missing .* unpack img\.zip"):
            read(official / "In-Shop")


class TestStanfordOnlineProducts:
    HEADER = "image_id class_id super_class_id path\n"

    def write(self, root, train, test):
        root.mkdir(exist_ok=True)
        for name, rows in (("train", train), ("test", test)):
            lines = [f"{i + 1} {c} {k} {p}\n" for i, (c, k, p) in enumerate(rows)]
            (root / f"Ebay_{name}.txt").write_text(self.HEADER + "".join(lines))

    def made_up(self):
        """As many rows and classes as published."""
        kinds = [f"kind{k}_final" for k in range(12)]

        def rows(images, classes, first):
            return [
                (first + i % classes, i % classes % 12 + 1, f"{kinds[i % classes % 12]}/{first}_{i}.JPG")
                for i in range(images)
            ]

        return rows(59551, 11318, 1), rows(60502, 11316, 11319)

    def test_counts_classes_and_super_classes(self, tmp_path):
        train, test = self.made_up()
        self.write(tmp_path, train, test)
        with pytest.raises(DataError, match="120,053 of 120,053 images are missing"):
            read(tmp_path)
        table = read(tmp_path, verify=False)
        assert (table.part("train").num_classes, table.part("test").num_classes) == (11318, 11316)
        assert table.class_names[:2] == ("1", "2")
        assert (table.coarse[0].name, len(table.coarse[0].class_names)) == ("super_class", 12)

    def test_a_missing_or_damaged_list(self, tmp_path):
        self.write(tmp_path, [(1, 1, "bicycle_final/a.JPG")], [(2, 2, "mug_final/b.JPG")])
        table = read(tmp_path, verify=False)
        assert table.coarse[0].class_names == ("bicycle", "mug")
        with pytest.raises(DataError, match=r"sop: 1 training images instead of 59,551 \(59,550 missing\)"):
            read(tmp_path)
        (tmp_path / "Ebay_train.txt").write_text(self.HEADER + "1 x\n")
        with pytest.raises(DataError, match=r"Ebay_train\.txt: line 2 is not"):
            read(tmp_path, verify=False)
        (tmp_path / "Ebay_train.txt").unlink()
        with pytest.raises(DataError, match=r"Ebay_train\.txt is missing"):
            read(tmp_path, verify=False)


class TestINaturalist:
    PATHS = ("Aves/12/a.jpg", "Aves/12/b.jpg", "Aves/3/c.jpg", "Plantae/7/d.jpg", "Fungi/9/e.jpg")

    @pytest.fixture
    def tree(self, tmp_path):
        touch(tmp_path / "inat" / "train_val2018", self.PATHS)
        return tmp_path / "inat"

    def test_species_super_classes_and_counts(self, tree):
        with pytest.raises(
            DataError, match=r"inaturalist: 5 images instead of 461,939 .*; 4 species instead of 8,142"
        ):
            read(tree, layout="inaturalist")
        table = read(tree, verify=False)
        assert table.class_names == ("Aves/3", "Aves/12", "Fungi/9", "Plantae/7")
        assert table.coarse[0].class_names == ("Aves", "Fungi", "Plantae")
        assert table.split is None
        names = '[{"id": 3, "name": "Corvus corax"}, {"id": 12, "name": "Parus major"}]'
        (tree / "categories.json").write_text(names)
        assert read(tree, verify=False).class_names[:3] == ("Corvus corax", "Parus major", "Fungi/9")

    def test_taxonomic_ranks_are_levels_that_nest(self, tree):
        """Two genera of one name in different families are two."""
        taxa = {
            3: ("Aves", "Passeriformes", "Corvidae", "Prunella"),
            12: ("Aves", "Passeriformes", "Paridae", "Parus"),
            9: ("Agaricomycetes", "Agaricales", "Amanitaceae", "Amanita"),
            7: ("Magnoliopsida", "Lamiales", "Lamiaceae", "Prunella"),
        }
        rows = [
            {"id": key, "name": str(key)}
            | dict(zip(("class", "order", "family", "genus"), taxon, strict=True))
            for key, taxon in taxa.items()
        ]
        (tree / "categories.json").write_text(json.dumps(rows))
        table = read(tree, verify=False)
        assert [level.name for level in table.coarse] == ["genus", "family", "order", "class", "super_class"]
        assert [len(level.class_names) for level in table.coarse] == [4, 4, 3, 3, 3]
        assert table.coarse[3].class_names[table.coarse[3].parents[1]] == "Aves"
        del rows[0]["genus"]
        (tree / "categories.json").write_text(json.dumps(rows))
        assert read(tree, verify=False).coarse[0].name == "family"

    def test_the_split_is_a_file(self, tree):
        rows = {"Aves/3": "train", "Aves/12": "train", "Fungi/9": "test", "Plantae/7": "validation"}
        text = "label,split\n" + "".join(f"{k},{v}\n" for k, v in rows.items())
        (tree / "split.csv").write_text(text)
        assert read(tree, verify=False).part("test").class_names == ("Fungi/9",)
        (tree / "split.csv").write_text(text.replace("Fungi/9,test\n", ""))
        with pytest.raises(DataError, match="1 classes have no row, first 'Fungi/9'"):
            read(tree, verify=False)
        (tree / "split.csv").write_text(text.replace("Fungi/9", "Fungi/99"))
        with pytest.raises(
            DataError, match="line 4 names class 'Fungi/99', which inaturalist lacks; did you mean"
        ):
            read(tree, verify=False)

    def test_the_lists_in_circulation(self, tree):
        (tree / "Inaturalist_train_set1.txt").write_text(
            "".join(f"train_val2018/{p}\n" for p in self.PATHS[:3])
        )
        (tree / "Inaturalist_test_set1.txt").write_text(
            "".join(f"train_val2018/{p}\n" for p in self.PATHS[3:])
        )
        assert read(tree, verify=False).part("test").class_names == ("Fungi/9", "Plantae/7")
        (tree / "Inaturalist_test_set1.txt").write_text("")
        with pytest.raises(DataError, match="is in neither"):
            read(tree, verify=False)


class TestOmniglot:
    def test_both_archives_or_one(self, shared_data, tmp_path):
        for part in ("background", "evaluation"):
            with zipfile.ZipFile(shared_data / f"omniglot_images_{part}.zip") as bundle:
                bundle.extractall(tmp_path / "both")
        table = read(tmp_path / "both")
        train, test = table.part("train"), table.part("test")
        assert (len(train), train.num_classes, len(test), test.num_classes) == (19280, 964, 13180, 659)
        assert len(table.coarse[0].class_names) == 50
        one = read(tmp_path / "both" / "images_background")
        assert (one.num_classes, one.split, one.name) == (964, None, "omniglot")
        image = open_image(table.file(0))
        assert (image.mode, image.size) == ("RGB", (105, 105))
        next((tmp_path / "both/images_background").rglob("*.png")).unlink()
        with pytest.raises(DataError, match="19,279 images instead of 19,280"):
            read(tmp_path / "both")


class TestGrocery:
    def test_the_archive(self, shared_data):
        table = read(shared_data / "grocery.zip")
        assert (len(table), table.num_classes, table.split) == (5421, 81, None)
        assert len(table.coarse[0].class_names) == 43
        apples = table.coarse[0].class_names.index("Apple")
        assert table.coarse[0].parents[table.class_names.index("Granny-Smith")] == apples
        listed = {
            path: (int(fine), int(coarse))
            for _, path, fine, coarse in (
                line.split("\t") for line in (table.root / "index.tsv").read_text().splitlines()[1:]
            )
        }
        for path, label in zip(table.paths, table.labels.tolist(), strict=True):
            assert listed[path] == (label, table.coarse[0].parents[label])
