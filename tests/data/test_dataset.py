from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.data.dataset import CoarseLevel, LabeledImages, natural_key, number_labels
from lookalike.errors import ArgumentError, DataError


def table(labels, *, names=None, split=None, role=None, coarse=()):
    count = max(labels) + 1
    return LabeledImages(
        Path("/images"),
        tuple(f"{c}/{i}.jpg" for i, c in enumerate(labels)),
        np.array(labels),
        names or tuple(f"class {c}" for c in range(count)),
        coarse=coarse,
        split=None if split is None else np.array(split),
        role=None if role is None else np.array(role),
    )


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_labels_of_any_integer_type_become_int64(dtype):
    made = LabeledImages(Path(), ("a", "b"), np.array([1, 0], dtype=dtype), ("x", "y"))
    assert made.labels.dtype == np.int64
    assert made.labels.tolist() == [1, 0]


def test_a_label_outside_the_classes_is_refused_with_the_image():
    with pytest.raises(DataError, match=r"label 2 of b\.jpg is not in 0\.\.1"):
        LabeledImages(Path(), ("a.jpg", "b.jpg"), np.array([0, 2]), ("x", "y"))


def test_a_class_name_twice_is_refused():
    with pytest.raises(DataError, match="a name twice"):
        LabeledImages(Path(), ("a",), np.array([0]), ("x", "x"))


def test_an_unknown_split_word_is_refused():
    with pytest.raises(DataError, match="split 'dev' of"):
        table([0, 1], split=["train", "dev"])


def test_the_table_cannot_be_changed():
    made = table([0, 1])
    with pytest.raises(ValueError, match="read-only"):
        made.labels[0] = 1


def test_rows_keep_the_classes_and_take_masks_and_numbers():
    made = table([0, 1, 2, 1], split=["train", "test", "test", "train"])
    assert made.rows([3, 0]).paths == ("1/3.jpg", "0/0.jpg")
    assert made.rows([3, 0]).split.tolist() == ["train", "train"]
    assert made.rows(made.labels == 1).labels.tolist() == [1, 1]
    assert made.rows(made.labels == 1).num_classes == 3


def test_of_classes_renumbers_in_the_order_asked():
    kinds = CoarseLevel("kind", np.array([0, 1, 0]), ("animal", "plant"))
    made = table([0, 1, 2, 1], names=("owl", "oak", "cat"), coarse=(kinds,))
    some = made.of_classes([2, 0])
    assert some.class_names == ("cat", "owl")
    assert some.labels.tolist() == [1, 0]
    assert some.paths == ("0/0.jpg", "2/2.jpg")
    assert some.coarse[0].class_names == ("animal",)
    assert some.coarse[0].parents.tolist() == [0, 0]


def test_of_classes_refuses_a_class_twice_or_unknown():
    for wrong in ([0, 0], [3]):
        with pytest.raises(ArgumentError, match=r"distinct and in 0\.\.1"):
            table([0, 1]).of_classes(wrong)


def test_part_takes_one_split_with_its_classes():
    made = table([0, 1, 2, 1], split=["train", "test", "test", "test"])
    assert made.splits() == ("train", "test")
    assert made.part("test").class_names == ("class 1", "class 2")
    assert made.part("test").labels.tolist() == [0, 1, 0]
    with pytest.raises(DataError, match=r"no part 'validation' \(its parts: train, test\)"):
        made.part("validation")


def test_queries_and_gallery_follow_the_roles():
    made = table([0, 0, 1], role=["query", "gallery", "both"])
    assert made.queries().tolist() == [0, 2]
    assert made.gallery().tolist() == [1, 2]
    assert table([0, 1]).queries().tolist() == [0, 1]


def test_the_digest_sees_everything_but_the_folder():
    base = table([0, 1], split=["train", "test"])
    assert base.digest() == table([0, 1], split=["train", "test"]).digest()
    others = [
        table([0, 1]),
        table([1, 0]),
        table([0, 1], names=("a", "b"), split=["train", "test"]),
        table([0, 1], split=["test", "test"]),
        table([0, 1], split=["train", "test"], role=["both", "query"]),
    ]
    assert len({base.digest(), *(o.digest() for o in others)}) == 6


def test_digest_is_the_same_on_every_machine():
    assert table([0, 1]).digest() == "992d3c5ea534dffb02eb606608cc32a51026e1765a55e90da27b82304fcfecdc"


def test_natural_order_counts():
    assert sorted(["10", "9", "b2", "b10", "A1"], key=natural_key) == ["9", "10", "A1", "b2", "b10"]


def test_labels_with_gaps_waste_no_number():
    labels, names = number_labels(["17", "40000", "3", "17"])
    assert labels.tolist() == [1, 2, 0, 1]
    assert names == ("3", "17", "40000")


@given(st.lists(st.text(min_size=1), min_size=1))
def test_numbering_can_be_undone(raw):
    labels, names = number_labels(raw)
    assert [names[i] for i in labels] == raw
    assert sorted(set(labels.tolist())) == list(range(len(set(raw))))
