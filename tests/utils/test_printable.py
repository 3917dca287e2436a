"""Text for terminals and pages."""

import pytest

from lookalike.utils.printable import printable

SIGN = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("кот 😀 e\u0301", "кот 😀 e\u0301"),
        ("\x1b[31mred", f"{SIGN}[31mred"),
        ("a\nb\tc", f"a{SIGN}b{SIGN}c"),
        ("\u202egpj.exe", f"{SIGN}gpj.exe"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_control_characters_are_replaced(text, shown):
    assert printable(text) == shown


def test_some_may_be_kept():
    assert printable("a\n\tb\r", keep="\n\t") == f"a\n\tb{SIGN}"
