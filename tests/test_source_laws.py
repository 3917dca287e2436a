"""Laws that every source file obeys: text has an encoding, JSON is strict."""

import ast
import re
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "lookalike"
FILES = sorted(SOURCE.rglob("*.py"))
MODE = re.compile(r"[rwaxbt+]+")


@cache
def calls(file):
    return list(calls_in(ast.parse(file.read_text(encoding="utf-8"))))


def places(law_breakers):
    """Files with the lines on which a function of a file finds something."""
    return [f"{file.relative_to(SOURCE)}:{line}" for file in FILES for line in law_breakers(file)]


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


def test_every_text_file_is_opened_with_an_encoding():
    assert places(without_encoding) == []


def test_json_is_written_strictly():
    """NaN is no JSON: `utils.io.to_json`, or allow_nan=False; keys that are hashed are sorted and stay inside."""

    def loose(file):
        for node, name, keywords in calls(file):
            of_json = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "json"
            if of_json and name in ("dumps", "dump") and not keywords & {"allow_nan", "sort_keys"}:
                yield node.lineno

    assert places(loose) == []


def test_the_laws_find_what_they_forbid(tmp_path):
    file = tmp_path / "bad.py"
    file.write_text("open('x')\nPath('y').read_text()\np.open('w')\nq.open('rb')\nopen('z', 'wb')\n", "utf-8")
    assert list(without_encoding(file)) == [1, 2, 3]


def test_random_states_are_kept_of_named_devices():
    """Without devices torch initializes every GPU of the machine, and warns."""

    def without_devices(file):
        return [
            node.lineno for node, name, keys in calls(file) if name == "fork_rng" and "devices" not in keys
        ]

    assert places(without_devices) == []


def test_durations_are_of_a_clock_that_never_goes_back():
    """`time.time()` follows the wall clock, which is set now and then."""

    def of_the_wall(file):
        return [
            node.lineno
            for node, name, _ in calls(file)
            if name == "time" and ast.unparse(node.func) == "time.time"
        ]

    assert places(of_the_wall) == []


def test_tensors_and_text_are_written_whole_or_not_at_all():
    """By `utils.tensor_file.save_tensors` and `utils.io.write_text`; nothing else calls what they call."""
    homes = {"save_file": "utils/tensor_file.py", "write_atomically.write_text": "utils/io.py"}

    def elsewhere(file):
        own = file.relative_to(SOURCE).as_posix()
        for node, name, _ in calls(file):
            inner = {word for argument in node.args for _, word, _ in calls_in(argument)}
            if any(homes.get(what, own) != own for what in (name, *(f"{name}.{word}" for word in inner))):
                yield node.lineno

    assert places(elsewhere) == []
