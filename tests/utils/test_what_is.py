"""What a message says is at a path where something else was expected."""

import pytest

from lookalike.utils.what_is import INDEX, MARKS, RUN, found_instead, similar_path, what_is


def make(folder, kind):
    folder.mkdir(parents=True)
    for name in MARKS[kind]:
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("kind", MARKS)
def test_a_folder_of_ours_is_named_and_so_is_a_file_in_it(tmp_path, kind):
    folder = make(tmp_path / "it", kind)
    assert what_is(folder) == kind
    assert found_instead(folder) == f"; it is {kind}"
    inside = found_instead(folder / MARKS[kind][0])
    assert inside == f"; it is a file of '{folder}', {kind}; name that folder"


@pytest.mark.parametrize("kind", MARKS)
def test_one_mark_alone_is_not_enough(tmp_path, kind):
    (tmp_path / MARKS[kind][0]).touch()
    assert what_is(tmp_path) is None


def test_a_run_with_a_model_is_a_run(tmp_path):
    run = make(tmp_path / "run", RUN)
    for name in MARKS["a model folder"]:
        (run / name).touch()
    assert what_is(run) == RUN


def test_a_folder_of_runs_names_the_first(tmp_path):
    make(tmp_path / "runs" / "b", RUN)
    make(tmp_path / "runs" / "a", RUN)
    assert found_instead(tmp_path / "runs") == f"; it holds '{tmp_path}/runs/a', {RUN}, and 1 more like it"


def test_other_folders_and_files(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "photos" / "cats").mkdir(parents=True)
    (tmp_path / "notes.txt").touch()
    assert found_instead(tmp_path / "empty") == "; the folder is empty"
    assert found_instead(tmp_path / "photos") == ""
    assert found_instead(tmp_path / "notes.txt") == "; it is a file"


def test_a_path_that_does_not_exist_names_its_neighbor(tmp_path, monkeypatch):
    make(tmp_path / "runs" / "photos", RUN)
    near = f"; did you mean '{tmp_path}/runs/photos'?"
    assert found_instead(tmp_path / "runs" / "photo") == f"; no such file or folder{near}"
    assert similar_path(tmp_path / "runs" / "entirely else") == ""
    assert similar_path(tmp_path / "absent" / "photos") == ""
    monkeypatch.chdir(tmp_path)
    assert similar_path("run") == "; did you mean 'runs'?"
    assert similar_path("runs/photso") == "; did you mean 'runs/photos'?"


def test_an_index_is_no_run(tmp_path):
    assert what_is(make(tmp_path / "i", INDEX)) == INDEX
