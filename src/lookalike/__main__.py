"""`lookalike` on the command line, and `python -m lookalike`."""

import contextlib
import ctypes
import signal
import sys
import threading
from types import FrameType

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h


def main() -> None:
    """Runs the command line; known failures are one line on standard error and exit code 1."""
    _keep_freed_memory()
    take_interrupts()
    from lookalike.cli import run

    sys.exit(run())


def take_interrupts() -> None:
    """Takes a scheduler's request to end, and a closed terminal, as Ctrl-C, and loses none of them."""
    signal.signal(signal.SIGTERM, _interrupt)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # ignored under nohup
        signal.signal(signal.SIGHUP, _interrupt)
    sys.unraisablehook = _interrupt_again


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _interrupt_again(dropped: "sys.UnraisableHookArgs") -> None:
    """Python drops an interrupt that arrives while it deletes an object, and says so: it is raised a moment later."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        again = threading.Timer(0.05, _signal_main_thread)
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(dropped)


def _signal_main_thread() -> None:
    """Interrupts the main thread, also where it waits; a signal of this thread would be seen when that ends."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        signal.raise_signal(signal.SIGINT)


def _keep_freed_memory() -> None:
    """Lets the C library reuse large blocks instead of returning each to the system.

    On a CPU every activation would otherwise be mapped and zeroed again, which doubles the time to embed
    (docs/how_to/use_in_another_loop.md). Elsewhere than on glibc nothing happens.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            libc = ctypes.CDLL("libc.so.6")
            libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30)
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


if __name__ == "__main__":
    main()
