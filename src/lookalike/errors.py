"""The errors that this package raises on purpose; each is also the built-in error that its kind of failure has.

LookalikeError
├── ArgumentError (ValueError)        an invalid argument, label or setting
│   └── NotFiniteError                numbers that are NaN or infinite; knows which samples have them
├── DataError (ValueError)            a data set, table or image that cannot be used as it is
├── FileError (OSError)               a file or folder that cannot be read, written or trusted
├── UnknownNameError (LookupError)    a name that is not in its table; carries the near misses
├── MissingExtraError (ImportError)   an optional package is absent; the message is the install command
└── TrainingError (RuntimeError)      training cannot continue: a loss that is not finite, collapsed embeddings

Messages are one line: what, where, what was expected, what to do.
"""

import errno
from collections.abc import Sequence


class LookalikeError(Exception):
    """Base of every error that this package raises on purpose."""


class ArgumentError(LookalikeError, ValueError):
    """An invalid argument, label or setting."""


class NotFiniteError(ArgumentError):
    """Numbers that are NaN or infinite; `samples` of the batch have them, all of it when empty."""

    def __init__(self, message: str, samples: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.samples = tuple(samples)


class DataError(LookalikeError, ValueError):
    """A data set, table or image that cannot be used as it is."""


class FileError(LookalikeError, OSError):
    """A file or folder that cannot be read, written or trusted."""


class UnknownNameError(LookalikeError, LookupError):
    """A name that is not in its table."""


class MissingExtraError(LookalikeError, ImportError):
    """An optional package is absent; the message is the command that installs it."""


class TrainingError(LookalikeError, RuntimeError):
    """Training cannot continue."""


NO_MEMORY = (
    "out of memory",
    "allocate memory",  # can't, cannot
    "not enough memory",
    "alloc_failed",
    "bad_alloc",
    "could not create a primitive",  # oneDNN, for its buffers
)
"""What torch says, in lower case, in a bare RuntimeError when the memory of the machine or of a GPU is full."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory did not suffice, of the machine or of an accelerator."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error).lower() for words in NO_MEMORY)
    )


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or else its name."""
    return (str(error) or type(error).__name__).splitlines()[0]
