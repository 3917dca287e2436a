"""Standard output and error for text that holds names of strangers: what would steer a terminal is escaped."""

from typing import Any, TextIO

TURNING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters that make a terminal show text in another order."""
CONTROLS = {*range(0x20), *range(0x7F, 0xA0), *TURNING} - set(map(ord, "\n\t"))
ESCAPES = {code: f"\\u{code:04x}" for code in CONTROLS}


def escape_controls(text: str) -> str:
    r"""`text` with control characters as `\u001b`, the form that JSON reads back."""
    return text.translate(ESCAPES)


def one_line(text: str) -> str:
    """`text` without control characters, line breaks among them, for a row of a list."""
    return escape_controls(text).replace("\n", "\\u000a").replace("\t", "\\u0009")


class Console:
    """A text stream that escapes control characters; all else is that of the stream itself.

    Rich takes `rich_proxied_file` to draw its bars.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Writes what `escape_controls` makes of `text`."""
        return self.rich_proxied_file.write(escape_controls(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)
