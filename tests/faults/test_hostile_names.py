"""Names of classes and files by strangers: text on the console, in pages and in tables, whatever command shows them."""

import re
import shutil
from pathlib import Path

import pytest

from faults.conftest import SETTINGS
from lookalike import serve
from lookalike.cli import run
from lookalike.utils.console import CONTROLS

CLASSES = [
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(2)>',
    "\x1b[31mred\x1b]0;title\x07",
    "=cmd|calc",
    "{{7*7}}${x}",
    "a\u202egnp",
    "'; DROP TABLE images; --",
    "--out",
    "new\nline",
    "\x9b5n",
]
FILES = ["<b onmouseover=alert(4)>.png", "\x1b]8;;x\x07.png", "=1+1.png", "a\nb.png"]
TAGS = ["<img src=x", "<svg onload", "<b onmouseover"]


@pytest.fixture(scope="module")
def hostile(photos, tmp_path_factory):
    """A folder of images with such names."""
    folder = tmp_path_factory.mktemp("hostile") / "data"
    for name, source in zip(CLASSES, sorted(Path(photos).iterdir()), strict=False):
        (folder / name).mkdir(parents=True)
        images = sorted(source.iterdir())
        for file, image in zip([*FILES, *(image.name for image in images[4:])], images, strict=False):
            shutil.copy(image, folder / name / file)
    return folder


def test_names_steer_neither_terminal_nor_page_nor_spreadsheet(
    hostile, tmp_path, own_cache, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    query = str(hostile / CLASSES[2] / FILES[1])
    for words in (
        ["data", "check", hostile, "--html", "check.html", "--write", "check.csv"],
        ["train", hostile, "--out", "run", "--device", "cpu", *SETTINGS],
        ["show", "run"],
        ["index", "run", hostile, "--out", "made"],
        ["search", "made", query, "--html", "hits.html"],
        ["search", "made", query, "--json"],
        ["search", "made", f"{query}.gone"],
        ["embed", "run", hostile, "--projector", "projector"],
        ["evaluate", "run", hostile, "--json"],
        ["train", hostile, "--set", f"{CLASSES[2]}=3"],
    ):
        code = run([str(word) for word in words])
        printed = "".join(capfd.readouterr())
        assert code == 0 or printed.splitlines()[-1].startswith("error: "), printed
        assert not CONTROLS & set(map(ord, printed)), (words, printed)
    pages = [*tmp_path.glob("*.html"), tmp_path / "run" / "report.html"]
    assert len(pages) == 3
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not [tag for tag in TAGS if tag in text], page
    for table in (tmp_path / "check.csv", tmp_path / "projector" / "metadata.tsv"):
        assert not re.search(r"(^|[,\t])=", table.read_text(encoding="utf-8"), re.MULTILINE), table


def test_the_web_page_shows_names_as_text():
    script = (Path(serve.__file__).parent / "static" / "page.js").read_text(encoding="utf-8")
    assert "textContent" in script
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", script)
