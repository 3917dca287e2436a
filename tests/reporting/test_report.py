"""The report of a run: golden text, self-containment, escaping, and runs with little to show."""

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from lookalike.losses.class_tree import build_tree
from lookalike.reporting.report import write_report

from .conftest import finish_run

GOLDEN = Path(__file__).parent / "golden" / "report.html"
EVIL = "<script>alert('x')</script>\x1b[31m\u202e&amp;\"'"


def structure(page):
    """The page without style sheet, plots and pixels, which depend on the versions of other packages."""
    page = re.sub(r"<style>.*?</style>", "<style/>", page, flags=re.DOTALL)
    page = re.sub(r"<svg.*?</svg>", "<svg/>", page, flags=re.DOTALL)
    return re.sub(r"base64,[A-Za-z0-9+/=]+", "base64,", page)


def test_the_page_of_a_tiny_run_is_as_committed(run):
    """To accept a change of the page: LOOKALIKE_UPDATE_GOLDEN=1 pytest tests/reporting, and read the diff."""
    page = structure(write_report(run[0].path, run[1]).read_text(encoding="utf-8"))
    if os.environ.get("LOOKALIKE_UPDATE_GOLDEN"):
        GOLDEN.write_text(page, encoding="utf-8")
    assert page == GOLDEN.read_text(encoding="utf-8")


def test_the_page_is_the_same_twice(run):
    first = write_report(run[0].path, run[1]).read_text(encoding="utf-8")
    assert write_report(run[0].path, run[1]).read_text(encoding="utf-8") == first


class Tags(HTMLParser):
    """Counts elements that are not closed, and collects addresses and scripts."""

    VOID = ("meta", "img", "br", "rect", "image", "circle", "path", "use", "link")

    def __init__(self):
        super().__init__()
        self.open, self.links, self.scripts = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.links += [value for key, value in attrs if key in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.links += [value for key, value in attrs if key in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def parse(page):
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_the_page_needs_no_network_and_no_other_file(run):
    page = write_report(run[0].path, run[1]).read_text(encoding="utf-8")
    tags = parse(page)
    assert tags.scripts == 0
    assert all(link.startswith(("data:image/jpeg;base64,", "#")) for link in tags.links)
    targets = {link[1:] for link in tags.links if link.startswith("#")}
    assert targets <= set(re.findall(r'\bid="([^"]+)"', page))


def test_names_with_html_and_terminal_escapes_are_text(tmp_path, squares):
    table = replace(squares, name=EVIL, class_names=tuple(f"{EVIL}{label}" for label in range(16)))
    run, done = finish_run(tmp_path / "run", table, extra={"in_words": [EVIL], "loss": EVIL})
    run.write_json("tree.json", build_tree([[0] * 8 + [1] * 8], table.class_names))
    page = write_report(run.path, done).read_text(encoding="utf-8")
    assert parse(page).scripts == 0
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page


def test_advice_and_hierarchy_are_shown_if_present(run):
    folder, done = run
    plain = write_report(folder.path, done).read_text(encoding="utf-8")
    assert 'class="advice"' not in plain
    assert 'id="hierarchy"' not in plain
    folder.write_json("tree.json", build_tree([[0] * 8 + [1] * 8], done.test.class_names))
    done = replace(
        done, result=done.result | {"in_words": ["How good.", "Show larger images.", "Add classes."]}
    )
    full = write_report(folder.path, done).read_text(encoding="utf-8")
    assert "<p>Show larger images.</p>\n<p>Add classes.</p>" in full
    assert "group 0 <small>8 classes</small>" in full


def test_selection_on_the_test_classes_is_said(run):
    folder, done = run
    selected = done.result["selected"] | {"test_used_to_select": True}
    done = replace(done, result=done.result | {"selected": selected})
    page = write_report(folder.path, done).read_text(encoding="utf-8")
    assert "The epoch was selected on the test classes, so their values are too high." in page
    assert "evaluated once" not in page


def test_a_perfect_untrained_run_has_no_mistakes_and_no_loss(tmp_path, squares):
    run, done = finish_run(tmp_path / "run", squares, spread=0.0, trained=False)
    page = write_report(run.path, done).read_text(encoding="utf-8")
    assert "every query retrieves its own class first" in page
    assert "every query with a match has an image of its class among the nearest" in page
    assert "Training loss over epochs" not in page


@pytest.mark.parametrize("kept", [[0, 1], [0, 4], [0, 4, 8]], ids=["one class", "two singletons", "three"])
def test_very_few_images(tmp_path, squares, kept):
    """One class has no negatives, singletons have no match: the page says so instead of failing."""
    table = squares.rows(kept)
    run, done = finish_run(tmp_path / "run", table)
    page = write_report(run.path, done).read_text(encoding="utf-8")
    parse(page)
    assert ("no query has a match" in page) == (kept != [0, 1])
    assert "nan" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)


def test_a_file_that_is_gone_is_a_gray_dot(tmp_path, squares):
    run, done = finish_run(tmp_path / "run", squares)
    done = replace(done, test=replace(done.test, root=tmp_path / "elsewhere"))
    assert write_report(run.path, done).is_file()


def test_collapsed_embeddings_are_shown(tmp_path, squares):
    run, done = finish_run(tmp_path / "run", squares)
    same = np.ones_like(done.final)
    assert write_report(run.path, replace(done, final=same, start=same)).is_file()
