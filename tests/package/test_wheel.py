"""The wheel holds what the package needs and nothing else, and works away from the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = (".html", ".md", ".toml", ".json", ".js", ".css", ".svg")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip(
        "setuptools", minversion="77", reason="pip install 'setuptools>=77' (extra 'dev') is absent"
    )
    out = tmp_path_factory.mktemp("wheel")
    source = out / "source"
    source.mkdir()
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    build("wheel", source, out)
    return next(out.glob("*.whl"))


def build(kind, source, out):
    """Builds the wheel or the sdist of a source tree into `out`, as pip and build do."""
    program = f"from setuptools.build_meta import build_{kind}; print(build_{kind}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=source, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_source_distribution_builds_the_same_wheel(wheel, tmp_path):
    build("sdist", wheel.parent / "source", tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (each for each in tmp_path.iterdir() if each.is_dir())
    build("wheel", unpacked, tmp_path)
    (again,) = tmp_path.glob("*.whl")
    assert zipfile.ZipFile(again).namelist() == zipfile.ZipFile(wheel).namelist()


def test_every_module_and_data_file_is_in_the_wheel_and_nothing_else(wheel):
    tree = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / "lookalike").rglob("*")
        if file.is_file() and (file.suffix in (".py", *DATA) or file.name == "py.typed")
    }
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == tree
    assert "lookalike/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_metadata_is_complete(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("METADATA"))
        text = archive.read(name).decode()
    for field in (
        "License-Expression: Apache-2.0",
        "Requires-Python: >=3.11",
        "Keywords: ",
        "Typing :: Typed",
    ):
        assert field in text
    assert "Provides-Extra: onnx" in text


def test_it_works_in_an_environment_of_its_own(wheel):
    """The script of `make dist`, with the dependencies that are installed here."""
    pytest.importorskip("pip")
    done = subprocess.run(
        ["bash", ROOT / ".ci" / "try_wheel", wheel, sysconfig.get_path("purelib")],
        env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("lookalike 0.1.0\n")
    assert done.stdout.endswith("the wheel works\n")


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="no hadolint on this machine")
def test_the_container_passes_hadolint():
    done = subprocess.run(["hadolint", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_container_installs_as_the_readme_says():
    commands = [
        line.removeprefix("RUN ").replace('"', "'")
        for line in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
        if line.startswith("RUN pip install") and "torch" not in line
    ]
    assert commands == ["pip install '.[serve]'"]
    assert commands[0] in (ROOT / "README.md").read_text(encoding="utf-8")
