from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.data.dataset import LabeledImages
from lookalike.data.splits import (
    ClassSplit,
    class_folds,
    half_split,
    hold_out_classes,
    named_split,
    three_way_split,
    two_stage_halves,
)
from lookalike.errors import ArgumentError, DataError


def table(classes, per_class=2, split=None):
    labels = np.repeat(np.arange(classes), per_class)
    paths = tuple(f"{c}/{i}.jpg" for i, c in enumerate(labels.tolist()))
    words = None if split is None else np.array(split)
    return LabeledImages(Path("/p"), paths, labels, tuple(f"c{i:05d}" for i in range(classes)), split=words)


def three_way(whole, *, test_fraction=0.3, validation_fraction=0.15, seed=0, source="auto"):
    return three_way_split(
        whole,
        test_fraction=test_fraction,
        validation_fraction=validation_fraction,
        seed=seed,
        source=source,
    )


def numbers(part):
    return [int(name[1:]) for name in part.class_names]


@given(st.integers(4, 60), st.floats(0.05, 0.95), st.integers(0, 3))
def test_held_out_classes_are_disjoint_complete_and_about_the_share(classes, share, seed):
    kept, held = hold_out_classes(table(classes), share, seed=seed)
    assert not set(kept.class_names) & set(held.class_names)
    assert len(kept) + len(held) == 2 * classes
    assert held.num_classes == min(max(2, round(share * classes)), classes - 2)


def test_the_same_classes_are_held_on_every_machine():
    assert numbers(hold_out_classes(table(20), 0.2, seed=0).held) == [7, 8, 16, 18]
    assert numbers(hold_out_classes(table(20), 0.2, seed=1).held) == [1, 4, 7, 13]


def test_held_classes_do_not_depend_on_the_order_of_the_files():
    forward = table(12)
    backward = forward.rows(np.arange(len(forward))[::-1]).of_classes(range(11, -1, -1))
    names = {frozenset(hold_out_classes(t, 0.3, seed=5).held.class_names) for t in (forward, backward)}
    assert len(names) == 1


def test_too_few_classes_or_images_to_hold_out():
    with pytest.raises(DataError, match="3 classes; holding out classes needs at least 4"):
        hold_out_classes(table(3), 0.2, seed=0)
    with pytest.raises(DataError, match="none of the 2 held-out classes has two images"):
        hold_out_classes(table(8, per_class=1), 0.2, seed=0)
    with pytest.raises(ArgumentError, match="fraction of held-out classes is 1"):
        hold_out_classes(table(8), 1, seed=0)


def test_sides_that_share_a_class_or_a_file_cannot_be_built():
    whole = table(4)
    with pytest.raises(DataError, match="share 1 classes, first 'c00001'"):
        ClassSplit(whole.of_classes([0, 1]), whole.of_classes([1, 2]))
    renamed = LabeledImages(whole.root, whole.paths[:2], np.array([0, 0]), ("other",))
    with pytest.raises(DataError, match=r"share 2 files, first 0/0\.jpg"):
        ClassSplit(whole.of_classes([0, 1]), renamed)


def test_the_digest_tells_splits_apart():
    whole = table(20)
    one, two = hold_out_classes(whole, 0.2, seed=0), hold_out_classes(whole, 0.2, seed=1)
    assert one.digest() == hold_out_classes(whole, 0.2, seed=0).digest() != two.digest()


@pytest.mark.parametrize(
    ("classes", "first", "second"), [(200, 100, 100), (196, 98, 98), (22634, 11317, 11317)]
)
def test_half_split_sizes_of_the_papers(classes, first, second):
    kept, held = half_split(table(classes, 1))
    assert (kept.num_classes, held.num_classes) == (first, second)
    assert numbers(kept) == list(range(first))


@pytest.mark.parametrize(
    ("training", "first", "second"), [(100, 50, 50), (98, 49, 49), (11318, 5659, 5659), (3997, 1998, 1999)]
)
def test_two_stage_sizes_of_proxynca_pp(training, first, second):
    kept, held = two_stage_halves(table(training, 1))
    assert (kept.num_classes, held.num_classes) == (first, second)


def test_folds_of_cub():
    folds = class_folds(table(100, 1))
    starts = [75, 0, 25, 50]
    for (train, validation), start in zip(folds, starts, strict=True):
        assert numbers(validation) == list(range(start, start + 25))
        assert train.num_classes == 75


def test_folds_of_cars_never_validate_classes_24_and_73():
    held = [numbers(fold.held) for fold in class_folds(table(98, 1))]
    assert held == [list(range(74, 98)), list(range(24)), list(range(25, 49)), list(range(49, 73))]
    assert set(range(98)) - {c for part in held for c in part} == {24, 73}


def test_folds_of_sop():
    assert {(f.kept.num_classes, f.held.num_classes) for f in class_folds(table(11317, 1))} == {(8488, 2829)}


def test_folds_of_too_few_classes():
    with pytest.raises(DataError, match="7 classes; 4 folds need at least 8"):
        class_folds(table(7))


def test_named_split_is_taken_and_must_be_disjoint():
    kept, held = named_split(table(4, 2, ["train"] * 4 + ["test"] * 4))
    assert (numbers(kept), numbers(held)) == ([0, 1], [2, 3])
    with pytest.raises(DataError, match=r"share 4 classes, first 'c00000'.*hold_out"):
        named_split(table(4, 2, ["train", "test"] * 4))


@pytest.mark.parametrize("classes", [1, 2, 3, 4, 5])
def test_too_few_classes_are_reported_with_the_number_in_the_data(classes):
    with pytest.raises(DataError, match=f"has {classes} class(es)?; .*at least 6"):
        three_way(table(classes))
    assert three_way(table(6)).test.num_classes == 2


@given(st.text(st.characters(categories=["Cs", "L"]), min_size=1), st.integers())
def test_any_name_of_a_class_can_be_split(name, seed):
    names = (name, *(f"{name} {i}" for i in range(7)))
    whole = LabeledImages(Path("/p"), tuple(map(str, range(16))), np.arange(16) % 8, names)
    assert len(three_way(whole, seed=seed).digest()) == 64


def test_three_way_without_a_named_split_holds_out_twice():
    split = three_way(table(40), test_fraction=0.25, validation_fraction=0.2)
    sizes = [p.num_classes for p in (split.train, split.validation, split.test, split.trainval)]
    assert sizes == [24, 6, 10, 30]
    assert split.source == "hold_out"


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_three_way_leaves_classes_to_train_and_to_validate(share):
    split = three_way(table(8), test_fraction=share)
    assert min(split.train.num_classes, split.validation.num_classes, split.test.num_classes) >= 2


def test_three_way_with_a_named_test_takes_validation_from_training():
    split = three_way(table(20, 2, ["train"] * 20 + ["test"] * 20), validation_fraction=0.2)
    assert numbers(split.test) == list(range(10, 20))
    assert (split.train.num_classes, split.validation.num_classes) == (8, 2)
    assert split.source == "named"


def test_a_test_part_alone_says_how_it_is_split_all_the_same():
    only = table(8, split=["test"] * 16)
    with pytest.raises(DataError, match=r"0 classes outside its test split; .* --set data\.split=hold_out"):
        three_way(only)


def test_three_way_with_all_parts_named():
    words = ["train"] * 4 + ["validation"] * 4 + ["test"] * 4
    split = three_way(table(6, 2, words))
    assert [numbers(p) for p in (split.train, split.validation, split.test)] == [[0, 1], [2, 3], [4, 5]]
    assert numbers(split.trainval) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["train"] * 6 + ["validation"] * 4 + ["test"] * 4, False),
        (["train"] * 10 + ["test"] * 4, False),
        (["train", "validation"] * 5 + ["test"] * 4, True),
        (["train"] * 7 + ["validation"] * 7, True),
    ],
)
def test_parts_of_the_data_that_are_not_used_are_spoken_of(words, unused):
    assert ("joined" in three_way(table(7, 2, words)).unused) == unused


def test_three_way_of_a_classification_split():
    shared = table(12, 2, ["train", "test"] * 12)
    with pytest.raises(DataError, match=r"data\.split=hold_out"):
        three_way(shared)
    assert three_way(shared, source="hold_out").source == "hold_out"
