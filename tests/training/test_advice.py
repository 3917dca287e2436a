"""What a run says of its result in plain words."""

from dataclasses import replace

import pytest

from lookalike.training.advice import RunFacts, in_words, of_100
from lookalike.training.summary import without_known_images

GOOD = RunFacts(
    mode="partial",
    recall_at_1=0.8279,
    start_recall_at_1=0.6023,
    epochs=3,
    best_epoch=3,
    classes=83,
    images=6802,
    image_size=192,
    largest_size=224,
)


@pytest.mark.parametrize(("share", "count"), [(0, 0), (0.29, 29), (0.57, 57), (0.9999, 99), (1, 100)])
def test_shares_are_rounded_down(share, count):
    assert of_100(share) == count


def test_a_run_whose_last_epoch_was_best():
    assert in_words(GOOD) == [
        "For 82 of 100 images of classes that training never saw, the most similar image shows the same class; 60 "
        "before training.",
        "What is likely to help next, most first: show larger images (data.image_size=224); train for longer "
        "(--minutes, or train.epochs): the last epoch was the best.",
    ]


@pytest.mark.parametrize(
    ("change", "said", "not_said"),
    [
        ({"best_epoch": 2}, "best after epoch 2 of 3 and got worse", "train for longer"),
        ({"best_epoch": 0}, "did not clearly beat the untrained start", "train for longer"),
        (
            {"recall_at_1": 0.55},
            "before training (the same command with --set train.epochs=0",
            "train for longer",
        ),
        ({"recall_at_1": 0.55}, "Training lowered it", "got worse"),
        ({"epochs": 0, "best_epoch": 0}, "train (train.epochs, or --minutes)", "before training"),
        ({"mode": "frozen"}, "train the network, not only its projection", "train for longer"),
        ({"classes": 12}, "add classes: 12", "add images per class"),
        ({"images": 332}, "add images per class: there are 4", "add classes"),
        ({"recall_at_1": 0.97}, "wrong labels", "add classes"),
        ({"image_size": 224}, "train for longer", "larger images"),
        ({"image_size": 224, "best_epoch": 1}, "confused in the report", "larger images"),
    ],
)
def test_what_limits_a_run_is_said(change, said, not_said):
    text = " ".join(in_words(replace(GOOD, **change)))
    assert said in text
    assert not_said not in text


@pytest.mark.parametrize("best_epoch", [0, 1, 2, 3])
@pytest.mark.parametrize("classes", [2, 1000])
@pytest.mark.parametrize("images", [6, 100_000])
def test_two_or_three_sentences_whatever_the_run(best_epoch, classes, images):
    sentences = in_words(replace(GOOD, best_epoch=best_epoch, classes=classes, images=images))
    assert 2 <= len(sentences) <= 3
    assert all(sentence.endswith(".") for sentence in sentences)


def test_test_images_that_were_not_new_are_spoken_of():
    copies = {"images": 2, "test_without": {"recall_at_1": 0.504}}
    known = {"images": 1200, "test_without": None}
    assert without_known_images({}) == []
    assert without_known_images({"test_copies": copies, "test_trained_on": known}) == [
        "2 test images are copies of training or validation images: without them it is 50 of 100.",
        "1,200 test images were trained on by the run that this one started from: without them nothing can be "
        "measured.",
    ]
