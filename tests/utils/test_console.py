"""Control characters in names never reach a terminal; everything else does."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console as RichConsole

from lookalike.utils.console import CONTROLS, Console, escape_controls, one_line
from lookalike.utils.progress import BarProgress


@given(st.text())
def test_nothing_that_steers_a_terminal_is_written(text):
    stream = io.StringIO(newline="")
    print(text, file=Console(stream), end="")
    written = stream.getvalue()
    assert not CONTROLS & set(map(ord, written))
    assert written == "".join(f"\\u{ord(c):04x}" if ord(c) in CONTROLS else c for c in text)


@given(st.text())
def test_json_is_read_back_as_it_was(text):
    assert json.loads(escape_controls(json.dumps([text], ensure_ascii=False))) == [text]
    assert not {"\n", "\t"} & set(one_line(text))


@pytest.mark.parametrize("name", ["\x1b[2Jred", "a\rb", "\x9b31m", "\u202egpj.exe"])
def test_a_bar_s_remarks_are_escaped_and_its_own_codes_are_not(name, capsys):
    progress = BarProgress()
    progress.say(name)
    assert name[0] not in capsys.readouterr().err.replace("\n", "") or name[0] == "a"


def test_rich_draws_on_the_stream_itself():
    stream = io.StringIO()
    RichConsole(file=Console(stream), force_terminal=True).print("[red]loss[/red]")
    assert "\x1b[31m" in stream.getvalue()
