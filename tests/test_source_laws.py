"""Laws that every source file obeys: text has an encoding, JSON is strict."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "lookalike"
FILES = sorted(SOURCE.rglob("*.py"))
MODE = re.compile(r"[rwaxbt+]+")


def calls(file):
    yield from calls_in(ast.parse(file.read_text(encoding="utf-8")))


def calls_in(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            yield node, name, {keyword.arg for keyword in node.keywords}


def mode_of(node):
    """The mode of an `open` call: its first text that looks like one."""
    texts = [
        word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)
    ]
    return next((text for text in texts if MODE.fullmatch(text)), None)


def without_encoding(file):
    for node, name, keywords in calls(file):
        mode = mode_of(node)
        text = name in ("read_text", "write_text")
        if name == "open" and isinstance(node.func, ast.Name):
            text = mode is None or "b" not in mode
        elif name == "open":
            text = mode is not None and "b" not in mode
        own = isinstance(node.func, ast.Name) and name != "open"  # `utils.io.write_text` has one
        if text and not own and "encoding" not in keywords:
            yield node.lineno


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_text_file_is_opened_with_an_encoding(file):
    assert list(without_encoding(file)) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_json_is_written_strictly(file):
    """NaN is no JSON: `utils.io.to_json`, or allow_nan=False; keys that are hashed are sorted and stay inside."""
    loose = [
        node.lineno
        for node, name, keywords in calls(file)
        if name in ("dumps", "dump") and getattr(node.func.value, "id", "") == "json"
        if not keywords & {"allow_nan", "sort_keys"}
    ]
    assert loose == []


def test_the_laws_find_what_they_forbid(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("open('x')\nPath('y').read_text()\np.open('w')\nq.open('rb')\nopen('z', 'wb')\n", "utf-8")
    assert list(without_encoding(file)) == [1, 2, 3]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_random_states_are_kept_of_named_devices(file):
    """Without devices torch initializes every GPU of the machine, and warns."""
    assert [
        node.lineno for node, name, keys in calls(file) if name == "fork_rng" and "devices" not in keys
    ] == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_durations_are_of_a_clock_that_never_goes_back(file):
    """`time.time()` follows the wall clock, which is set now and then."""
    wall = [node.lineno for node, _, _ in calls(file) if ast.unparse(node.func) == "time.time"]
    assert wall == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_tensors_and_text_are_written_whole_or_not_at_all(file):
    """By `utils.tensor_file.save_tensors` and `utils.io.write_text`; nothing else calls what they call."""
    homes = {"save_file": "utils/tensor_file.py", "write_atomically.write_text": "utils/io.py"}
    for node, name, _ in calls(file):
        inner = {word for argument in node.args for _, word, _ in calls_in(argument)}
        for what in (name, *(f"{name}.{word}" for word in inner)):
            assert homes.get(what, file.relative_to(SOURCE).as_posix()) == file.relative_to(SOURCE).as_posix()
