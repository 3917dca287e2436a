"""What the documents say is true: links lead somewhere, Python examples run, commands exist."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from pytorch_metric_learning import losses as pml_losses

import lookalike.losses
from lookalike.cli import app
from lookalike.search.image_search import search_images
from toys import photo_folders

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda f: f.name)
def test_links_lead_to_files(document):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", BLOCK.sub("", document.read_text())):
        if not target.startswith(("http://", "https://")):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_the_files_that_the_architecture_page_names_exist():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page[page.index("## Where a change belongs") : page.index("## Rules")]
    rows = [re.findall(r"`([\w./]+)`", line) for line in table.splitlines() if line.startswith("| ")]
    files = [[name for name in row if "/" in name] for row in rows]
    assert sum(map(len, files)) > 20
    for row, named in zip(rows, files, strict=True):
        assert all((ROOT / "src" / "lookalike" / file).exists() for file in named), row
        code = "".join(path.read_text() for f in named if (path := ROOT / "src" / "lookalike" / f).is_file())
        assert all(word in code for word in row if word[0].isupper() and word[1:].isidentifier()), row


def python_blocks():
    return [text for language, text in BLOCK.findall(README) if language == "python"]


@pytest.mark.parametrize("code", python_blocks(), ids=["package", "loss"])
def test_the_readmes_python_runs(code, tmp_path, monkeypatch, own_cache):
    photo_folders(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})


PYTHON_PAGES = ("how_to/migrate.md", "how_to/evaluate_other_embeddings.md")


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_the_python_of_a_page_runs(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = [code for language, code in BLOCK.findall(text) if language == "python"]
    assert blocks
    for code in blocks:
        exec(compile(code, page, "exec"), {})


def test_vectors_of_another_program_are_indexed_as_the_page_says(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "how_to" / "search_and_serve.md").read_text(encoding="utf-8")
    section = page.partition("### Vectors of another program")[2]
    code = next(code for language, code in BLOCK.findall(section) if language == "python")
    monkeypatch.chdir(tmp_path)
    np.save("vectors.npy", np.random.default_rng(0).normal(size=(20_500, 8)).astype(np.float32))
    paths = [f"{number // 20}/{number}.jpg" for number in range(20_500)]
    (tmp_path / "paths.txt").write_text("\n".join(paths), encoding="utf-8")
    scope = {}
    exec(compile(code, "search_and_serve.md", "exec"), scope)
    assert scope["hits"][0].path == "0/0.jpg"
    assert len(scope["hits"]) == 3
    with pytest.raises(lookalike.errors.FileError, match="holds vectors and no model"):
        search_images("vectors.index", ["new.jpg"])


def losses_of_the_migration_page():
    """Theirs and ours of each row that names one of each."""
    page = (ROOT / "docs" / "how_to" / "migrate.md").read_text(encoding="utf-8")
    return re.findall(r"^\| `(losses\.\w+\([^`]*)` \| `(lookalike\.[^`]*)` \|", page, re.MULTILINE)


@pytest.mark.parametrize(("theirs", "ours"), losses_of_the_migration_page())
def test_a_loss_of_pytorch_metric_learning_is_the_one_that_the_page_names(theirs, ours):
    scope = {"losses": pml_losses, "lookalike": lookalike, "C": 6, "D": 4}
    first, second = eval(theirs, scope), eval(ours, scope)
    draws = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(18, 4, generator=draws), torch.arange(6).repeat(3)
    weights = next(first.parameters()).detach()
    if len(weights) == 4:
        weights = weights.T
    with torch.no_grad():
        second.proxies.copy_(weights)
        assert float(second(embeddings, labels)) == pytest.approx(float(first(embeddings, labels)), rel=1e-5)


def console_lines():
    for document in DOCUMENTS:
        for language, text in BLOCK.findall(document.read_text()):
            if language == "console":
                yield from re.findall(r"^\$ (lookalike .*?)(?:\s+#.*)?$", text, re.MULTILINE)


@pytest.mark.parametrize("line", sorted(set(console_lines())))
def test_command_lines_in_documents_name_commands_and_options_that_exist(line):
    _, *words = shlex.split(line)
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    known = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        if word.startswith("-"):
            assert word.split("=")[0] in known, f"{line}: {word}"


def test_every_command_is_in_the_readme():
    for command in typer.main.get_command(app).commands:
        assert f"`{command}`" in README, command
