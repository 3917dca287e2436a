"""The commands index, search and calibrate, on one trained run."""

import json
import shutil

import pytest


def test_index_finds_an_image_itself_first_and_refuses_another_model(lookalike, trained, desk):
    assert lookalike("index", "runs/photos", "photos", "--out", "p.index", "--quiet").code == 0
    done = lookalike("search", "p.index", "photos/3/2.png", "-k", "3", "--json", "--html", "hits.html")
    hits = json.loads(done.out)["hits"]
    assert hits[0]["path"] == "3/2.png"
    assert hits[0]["similarity"] == pytest.approx(1, abs=1e-5)
    assert len(hits) == 3
    assert (desk / "hits.html").read_text().count("base64") == 4
    again = lookalike("index", "runs/photos", "photos", "--out", "p.index", "--quiet")
    assert "72 unchanged" in again.out
    other = lookalike("index", "runs/other", "photos", "--out", "p.index", "--quiet")
    assert other.code == 1
    assert "model" in other.err


def test_index_names_broken_images_and_search_filters_and_marks(lookalike, trained, desk):
    shutil.copytree(desk / "photos", desk / "mixed")
    (desk / "mixed" / "3" / "2.png").write_bytes(b"<html>")
    done = lookalike("index", "runs/photos", "mixed", "--out", "m.index", "--quiet")
    assert done.code == 0
    assert "3/2.png" in done.out
    assert lookalike("index", "runs/photos", "mixed", "--out", "m.index", "--on-bad-file", "fail").code == 1
    done = lookalike("search", "m.index", "mixed/3", "-k", "99", "--where", "label in (3, 4)", "--json")
    assert done.code == 1
    assert "2.png" in done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert sorted(len(line.get("hits", [])) for line in lines) == [0, 11, 11, 11, 11, 11]
    done = lookalike("search", "m.index", "mixed/3/0.png", "--threshold", "0.9999", "-k", "2")
    assert done.out.splitlines()[2].startswith("? ")
    done = lookalike("search", "m.index", "mixed/3/0.png", "--where", "colour = 3")
    assert done.code == 1
    assert "unknown column 'colour'" in done.err
    done = lookalike("index", "check", "m.index")
    assert "exact: recall 100.00 % of the 10 nearest" in done.out


def test_search_by_sample_leaves_the_query_out(lookalike, trained):
    assert lookalike("index", "runs/photos", "photos", "--out", "s.index", "--quiet").code == 0
    done = lookalike("search", "s.index", "--sample", "4", "-k", "2", "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert len(found) == 4
    for answer in found:
        assert len(answer["hits"]) == 2
        assert all(not answer["query"].endswith(hit["path"]) for hit in answer["hits"])


def test_calibrate_stores_a_threshold_that_search_marks_by(lookalike, trained, desk):
    assert lookalike("index", "runs/photos", "photos", "--out", "t.index", "--quiet").code == 0
    done = lookalike("calibrate", "runs/photos", "photos", "--recall", "0.9", "--index", "t.index", "--json")
    assert done.code == 0, done.err
    stored = json.loads((desk / "t.index" / "index.json").read_text())["threshold"]
    assert stored["similarity"] == json.loads(done.out)["similarity"]
    answer = json.loads(lookalike("search", "t.index", "photos/3/0.png", "-k", "99", "--json").out)
    assert answer["threshold"] == stored["similarity"]
    assert {hit["same_class"] for hit in answer["hits"]} == {True, False}
    assert lookalike("index", "runs/photos", "photos", "--out", "u.index", "--quiet").code == 0
    assert json.loads((desk / "u.index" / "index.json").read_text())["threshold"] == stored
    assert lookalike("calibrate", "runs/other", "photos", "--index", "t.index", "--recall", "0.9").code == 1
    assert lookalike("calibrate", "runs/photos", "photos", "--recall", "0.9", "--precision", "0.9").code == 1


def test_calibrate_refuses_a_wrong_index_before_it_chooses(lookalike, trained, desk):
    (desk / "runs" / "photos" / "threshold.json").unlink(missing_ok=True)
    for wrong in ("photos", "absent.index"):
        done = lookalike("calibrate", "runs/photos", "photos", "--recall", "0.9", "--index", wrong)
        assert done.code == 1
        assert "no index in" in done.err
    assert not (desk / "runs" / "photos" / "threshold.json").exists()


def test_an_index_of_a_run_that_still_trains_is_said_and_the_finished_run_is_not_mixed_in(
    lookalike, trained, desk, tmp_path
):
    """What `index` sees while `train` runs: another model, and no result."""
    training = tmp_path / "run"
    shutil.copytree(desk / "runs/other", training)
    (training / "result.json").unlink()
    words = ("index", training, "photos", "--out", tmp_path / "index", "--quiet")
    early = lookalike(*words)
    assert early.code == 0
    assert "has not ended, and this is its model so far" in early.err
    for file in ("model.safetensors", "config.json", "result.json"):
        shutil.copy(trained / file, training / file)
    late = lookalike(*words)
    assert (late.code, "has not ended" in late.err) == (1, False)
    assert "training on changes a run's model); give another --out, or remove the folder" in late.err
    assert lookalike("index", "check", tmp_path / "index").code == 0
