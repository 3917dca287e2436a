"""What is said when the system kills this process, as it does where memory runs out: a waiting shell prints it."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_WAIT = 'read -r line || printf "%s\\n" "$1" >&2'
"""`read` fails when its input ends without a line, and that is when this process ends without having written one."""
_waiting: list["subprocess.Popen[bytes]"] = []


@contextmanager
def say_if_killed(message: str) -> Iterator[None]:
    """Prints `message` on standard error if this process is killed inside; where there is no shell, nothing is said.

    Decoding processes hold the shell's input open too: the message comes when they have ended, within ten seconds.
    """
    with contextlib.suppress(OSError):
        _waiting.append(
            subprocess.Popen(
                [shutil.which("sh") or "sh", "-c", _WAIT, "sh", message],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C and a closed terminal are for this process
            )
        )
    try:
        yield
    finally:
        _dismiss()


def end_process(message: str) -> None:
    """Ends this process at once, whatever its main thread does, with an error message of its own."""
    print(f"error: {message}", file=sys.stderr, flush=True)
    _dismiss()
    os._exit(1)


def _dismiss() -> None:
    while _waiting:
        with contextlib.suppress(OSError):
            _waiting.pop().communicate(b"ended\n")
