"""Every command has a help text that ends in an example, and the example works."""

import re
import shlex
import shutil

import pytest
import typer

from lookalike.cli import app

ROOT = typer.main.get_command(app)


def commands(command=ROOT, name="lookalike"):
    """Every command, with its full name."""
    if hasattr(command, "commands"):
        for child, inner in command.commands.items():
            yield from commands(inner, f"{name} {child}")
    else:
        yield name, command


COMMANDS = dict(commands())
EXAMPLE = re.compile(r"Example: lookalike (.+)\Z")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_and_ends_in_an_example(name, lookalike):
    done = lookalike(*name.split()[1:], "--help")
    assert done.code == 0
    assert COMMANDS[name].help
    assert "Example: lookalike" in done.out
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name}: {parameter.name} has no help"


ELSEWHERE = {"lookalike train": "below", "lookalike push": "tests/export", "lookalike serve": "tests/serve"}
"""Commands whose example is tested in another place."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ELSEWHERE])
def test_example_works(name, lookalike, desk, trained):
    words = shlex.split(EXAMPLE.search(COMMANDS[name].epilog).group(1))
    if "photos.zip" in words:
        shutil.make_archive("photos", "zip", "photos")
    if name == "lookalike compare":
        for ours, theirs in (("runs/a", "photos"), ("runs/b", "other")):
            shutil.copytree(desk / "runs" / theirs, desk / ours, dirs_exist_ok=True)
    if name in ("lookalike search", "lookalike study table"):
        before = {"lookalike search": "lookalike index", "lookalike study table": "lookalike study run"}[name]
        done = lookalike(*shlex.split(EXAMPLE.search(COMMANDS[before].epilog).group(1)))
        assert done.code == 0, done.err
    done = lookalike(*words)
    assert done.code == 0, done.err
    assert done.out


def test_the_example_of_train_is_the_quick_one():
    assert (
        EXAMPLE.search(COMMANDS["lookalike train"].epilog)
        .group(1)
        .startswith("train photos --out runs/photos")
    )
