"""A path that is something else than a command expects: one line says what it is, and nothing is changed."""

import pytest

RUN, INDEX, IMAGES, ABSENT = "runs/photos", "w.index", "photos", "runs/photo"
EVERY_RUN = [
    ("evaluate", "{}"),
    ("evaluate", "{}", "photos"),
    ("embed", "{}", "photos", "--out", "x.npz"),
    ("export", "{}", "--onnx", "x.onnx"),
    ("push", "{}", "somebody/photos"),
    ("index", "{}", "photos", "--out", "x.index"),
    ("calibrate", "{}", "photos"),
    ("show", "{}"),
    ("compare", "{}"),
    ("data", "check", "photos", "--model", "{}"),
]
EVERY_INDEX = [("search", "{}", "photos/3/0.png"), ("serve", "{}", "--port", "0"), ("index", "check", "{}")]
EVERY_DATA = [
    ("train", "{}", "--out", "x.run"),
    ("evaluate", "runs/photos", "{}"),
    ("embed", "runs/photos", "{}", "--out", "x.npz"),
    ("index", "runs/photos", "{}", "--out", "x.index"),
    ("calibrate", "runs/photos", "{}"),
    ("data", "check", "{}"),
    ("data", "split", "{}"),
]
WRONG = [
    *((words, wrong) for words in EVERY_RUN for wrong in (INDEX, IMAGES, ABSENT, "runs")),
    *((words, wrong) for words in EVERY_INDEX for wrong in (RUN, IMAGES, ABSENT)),
    *((words, wrong) for words in EVERY_DATA for wrong in (RUN, INDEX, ABSENT)),
]
SAID = {
    INDEX: "it is an index, as `lookalike index` leaves it",
    RUN: "it is a run directory, as `lookalike train` leaves it",
    ABSENT: "did you mean 'runs/photos'?",
    "runs": "it holds 'runs/",
    IMAGES: "expected ",
}


@pytest.fixture(scope="module")
def index(desk, trained):
    import os

    from lookalike.search.build import build_index

    before = os.getcwd()
    os.chdir(desk)
    try:
        build_index("runs/photos", "photos", INDEX)
    finally:
        os.chdir(before)
    return desk / INDEX


def files(folder):
    return sorted(str(path) for path in folder.rglob("*") if not path.name.startswith("catalog.sqlite-"))


@pytest.mark.parametrize(
    ("words", "wrong"), WRONG, ids=lambda value: value if isinstance(value, str) else " ".join(value)
)
def test_a_wrong_path_is_named_for_what_it_is(lookalike, desk, index, words, wrong):
    before = files(desk)
    done = lookalike(*(word.format(wrong) for word in words))
    last = done.err.splitlines()[-1]
    assert done.code == 1, done.out
    assert last.startswith("error: ")
    assert wrong in last
    assert SAID[wrong] in last
    assert files(desk) == before


@pytest.mark.parametrize("place", [RUN, IMAGES, "w.index/model", "hits"])
def test_an_index_is_not_mixed_into_a_folder_of_other_things(lookalike, desk, index, place):
    (desk / "hits").mkdir(exist_ok=True)
    (desk / "hits" / "letter.txt").touch()
    before = files(desk)
    done = lookalike("index", "runs/photos", "photos/3", "--out", place)
    assert done.code == 1
    assert "name a new folder for the index" in done.err or "name another folder for the index" in done.err
    assert files(desk) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ks", "0"), "ks is [0]"),
        (("--similarity", "cosin"), "did you mean 'cosine'?"),
        (("--no-match", "skip"), "no_match is 'skip'"),
        (("--labels", "x.npy"), "--labels goes with --embeddings"),
        (("--embeddings", "x.npy"), "not both"),
    ],
)
def test_options_of_evaluate_are_checked_before_images_are_read(lookalike, trained, words, said):
    done = lookalike("evaluate", "runs/photos", *words)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert said in done.err


def test_a_file_of_embeddings_in_the_place_of_a_run(lookalike, desk):
    (desk / "x.npy").touch()
    done = lookalike("evaluate", "x.npy")
    assert done.code == 1
    assert "measured with --embeddings FILE" in done.err


def test_a_list_of_files_is_pointed_to_standard_input(lookalike, desk, index):
    (desk / "list.txt").write_text("photos/3/0.png\n", encoding="utf-8")
    done = lookalike("search", INDEX, "list.txt")
    assert done.code == 1
    assert "search INDEX - < 'list.txt'" in done.err


def test_a_list_of_files_from_windows(lookalike, desk, index, monkeypatch):
    import io
    import sys

    monkeypatch.setattr(sys, "stdin", io.StringIO("photos/3/0.png\r\nphotos/3/absent.png\r\n", newline=""))
    done = lookalike("search", INDEX, "-", "-k", "1")
    assert done.code == 1
    assert "photos/3/0.png" in done.out
    assert done.err == "error: photos/3/absent.png: no such file\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--minutes", "0"), "--minutes is 0"),
        (("--minutes", "nan"), "--minutes is nan"),
        (("--minutes", "inf"), "--minutes is inf"),
        (("--devices", "0"), "--devices is 0; it must be at least 1"),
        (("--log-to", "csv,wandbb"), "did you mean 'wandb'?"),
    ],
)
def test_numbers_and_names_of_train_are_checked_before_images_are_read(lookalike, desk, words, said):
    done = lookalike("train", "photos", "--out", "x.run", *words)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert said in done.err
    assert not (desk / "x.run").exists()


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        (("train", "photos", "--epochs", "3"), "train.epochs"),
        (("train", "photos", "--batch-size", "16"), "batch.size"),
        (("train", "photos", "--image-size=160"), "data.image_size"),
        (("train", "photos", "--loss", "cos_face"), "loss.name"),
        (("train", "photos", "--seed", "1"), "seed"),
        (("study", "run", "proxynca_pp/table7", "--lr", "1"), "train.lr"),
    ],
)
def test_a_setting_that_was_taken_for_an_option_is_shown_as_one(lookalike, words, setting):
    done = lookalike(*words)
    assert done.code == 2
    assert f"A setting is given with --set: --set {setting}=VALUE" in done.err


@pytest.mark.parametrize(
    "words", [("train", "photos", "--colour", "3"), ("index", "a", "b", "--epochs", "3")]
)
def test_other_unknown_options_are_not(lookalike, words):
    done = lookalike(*words)
    assert done.code == 2
    assert "--set" not in done.err.replace("Possible options", "")


def test_index_check_refuses_options_that_would_change_nothing(lookalike, desk):
    done = lookalike("index", "check", "w.index", "--engine", "faiss")
    assert done.code == 2
    assert "--engine is for adding images" in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (RUN, "it is a run directory"),
        (IMAGES, "expected a YAML file"),
        (f"{RUN}/experiment.yml", f"did you mean '{RUN}/experiment.yaml'?"),
    ],
)
def test_a_wrong_path_of_an_experiment(lookalike, desk, index, wrong, said):
    done = lookalike("train", "photos", "--out", "x.run", "--config", wrong)
    assert done.code == 1
    assert said in done.err
    assert "Errno" not in done.err
