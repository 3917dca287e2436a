"""Every script in examples/ runs, at toy size, in a process of its own."""

import importlib.util
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.faults.commands import fork_server

from lookalike.data.glyphs import distinct_characters, images_of

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(
    file.stem for file in EXAMPLES.glob("*.py") if file.stem not in ("tour", "toy_data", "two_moons")
)
NEEDS = {"lightning_module": "pytorch_lightning", "hugging_face_trainer": "transformers"}


def run(script: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=250)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def run_as_main(script: Path, printed: Path) -> None:
    """Runs a script as `python script` does, and writes what it prints to a file."""
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.parent))
    with printed.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    runpy.run_path(str(script), run_name="__main__")


def fork(script: str, folder: Path) -> str:
    """What a script prints that runs in a fork of a process which has imported torch and more."""
    printed = folder / "printed.txt"
    process = fork_server().Process(target=run_as_main, args=(EXAMPLES / f"{script}.py", printed))
    process.start()
    process.join(250)
    text = printed.read_text(encoding="utf-8")
    assert process.exitcode == 0, text[-2000:]
    return text


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_runs_and_learns(script, tmp_path):
    package = NEEDS.get(script)
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed")
    output = fork(script, tmp_path)
    recalls = [float(number) for number in re.findall(r"recall.*?([01]\.\d+)", output)]
    assert recalls
    assert min(recalls) > 0.5  # chance is 0.1


@pytest.fixture
def few_glyphs(tmp_path):
    """Eight drawings each of twenty characters, as a folder of class folders."""
    for character in distinct_characters()[:20]:
        folder = tmp_path / "glyphs" / character.name
        folder.mkdir(parents=True)
        for number, image in enumerate(images_of(character, 0, 8)):
            image.save(folder / f"{number}.png")
    return tmp_path / "glyphs"


def test_the_tour_reads_trains_measures_indexes_and_searches(few_glyphs, tmp_path):
    output = run("tour", str(few_glyphs), str(tmp_path / "tour"))
    assert float(re.search(r"recall@1 ([01]\.\d+)", output)[1]) > 0.3
    assert (tmp_path / "tour" / "run" / "result.json").is_file()
    assert re.search(r"most similar to .*\n  0\.\d+ ", output)


def test_small_temperatures_bend_the_boundary_around_more_points(tmp_path):
    output = run("two_moons", str(tmp_path / "moons.svg"))
    right = [float(number) for number in re.findall(r"(\d+\.\d) % of the training points", output)]
    assert right == sorted(right)
    assert right[-1] > right[0] + 5
    assert (tmp_path / "moons.svg").read_text(encoding="utf-8").startswith("<?xml")
