"""Text from files and tables without what a terminal or a page would obey instead of show."""

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def printable(text: str, *, keep: str = "") -> str:
    """The text with U+FFFD for control characters (terminal escapes, line ends, changes of the writing direction),
    except those of `keep`; bytes of names that are not UTF-8 are escaped."""
    plain = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return _CONTROL.sub(lambda found: found[0] if found[0] in keep else "\N{REPLACEMENT CHARACTER}", plain)
