"""The command line: one file a verb, each a thin call of the library.

Results go to standard output, progress to standard error. Exit code 0: done; 1: a failure, told in one
line (what, where, what to do); 2: the command itself is wrong.
"""

import io
import sys

import typer

from lookalike.cli import (
    compare,
    data,
    doctor,
    embed,
    evaluate,
    export,
    index,
    listing,
    metrics,
    search,
    show,
    study,
    train,
)
from lookalike.errors import LookalikeError, first_line, is_out_of_memory

app = typer.Typer(
    name="lookalike",
    help="Train image embeddings with proxies, measure them honestly, search with the result.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Begin with: lookalike train glyphs --out runs/glyphs",
)

train.add(app)
evaluate.add(app)
embed.add(app)
export.add(app)
index.add(app)
search.add(app)
listing.add(app)
show.add(app)
metrics.add(app)
compare.add(app)
doctor.add(app)
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")


_INTERRUPTED = 130  # what typer makes of Ctrl-C


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line on `arguments` (default: the process's own) and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the console cannot show are escaped
    try:
        outcome = app(arguments, standalone_mode=False)
        code = outcome if isinstance(outcome, int) else 0
    except LookalikeError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except typer.Exit as done:
        code = done.exit_code
    except Exception as error:
        if is_out_of_memory(error):
            print(f"error: out of memory ({first_line(error)})", file=sys.stderr)
            return 1
        return _usage(error)
    if code == _INTERRUPTED:
        print("stopped; a training run goes on with --resume", file=sys.stderr)
        return 1
    return code


def _usage(error: Exception) -> int:
    """2 for a command that typer refuses, with its message; any other exception is a bug and goes on."""
    show_it = getattr(error, "show", None)
    if show_it is None:
        raise error
    show_it()
    return int(getattr(error, "exit_code", 2))
