"""The command line: one file per command, each a thin call of the library.

Results go to standard output, progress to standard error. Exit code 0: done; 1: a failure, explained in one
line (what, where, what to do); 2: the command itself is wrong.
"""

import contextlib
import io
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Annotated

import typer

from lookalike.cli import (
    cache,
    calibrate,
    compare,
    data,
    doctor,
    embed,
    evaluate,
    export,
    index,
    listing,
    push,
    search,
    serve,
    show,
    study,
    train,
)
from lookalike.errors import LookalikeError, first_line, is_out_of_memory
from lookalike.utils.console import Console
from lookalike.utils.io import explain_os_error
from lookalike.utils.killed import say_if_killed

app = typer.Typer(
    name="lookalike",
    help="Train image embeddings with proxies, measure them honestly, search with the result.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Begin with: lookalike train glyphs --out runs/glyphs",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"lookalike {metadata.version('lookalike')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train image embeddings with proxies, measure them honestly, search with the result."""


def register(command: Callable[..., None], example: str) -> None:
    """Makes a function a command, whose name is the first word of the example."""
    app.command(example.split()[0], epilog=f"Example: lookalike {example}")(command)


register(train.train, "train photos --out runs/photos --set train.mode=frozen")
register(evaluate.evaluate, "evaluate runs/photos photos --json")
register(embed.embed, "embed runs/photos photos --out photos.npz")
register(export.export, "export runs/photos --onnx photos.onnx")
register(push.push, "push runs/photos somebody/photos")
register(index.index, "index runs/photos photos --out photos.index")
register(search.search, "search photos.index photos/0/0.png -k 3 --html hits.html")
register(calibrate.calibrate, "calibrate runs/photos photos --recall 0.9")
register(serve.serve, "serve photos.index --port 8000")
register(listing.list_entries, "list losses")
register(show.show, "show runs/photos")
register(compare.compare, "compare runs/a runs/b --metric map_at_r")
register(doctor.doctor, "doctor")
app.add_typer(cache.app, name="cache")
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")


_INTERRUPTED = 130  # what typer makes of Ctrl-C
_KILLED = "the system has killed this command, most likely because memory ran out"
_MEMORY_ADVICE = {
    "train": "set batch.size (batch.classes of the balanced sampler) or data.image_size lower, train.mode=partial, or "
    "data.workers=0; or give it more memory and continue with --resume",
    "study": "give it more memory; the same command continues",
}
"""What to change where memory does not suffice, by command."""
_CONTINUES = {
    "train": "; --resume continues the run",
    "study": "; the same command continues",
    "index": "; the same command continues",
}
"""How an interrupted command is continued; others start from scratch, or have nothing to continue."""


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line on `arguments` (default: the process's own) and returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names that the console cannot show are escaped
    out, err = (Console(stream or io.StringIO()) for stream in (sys.stdout, sys.stderr))  # None: closed
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _run(arguments)


def _run(arguments: list[str] | None) -> int:
    try:
        os.getcwd()
    except FileNotFoundError:
        return _failed("the current folder has been removed; change to another")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        empty = _empty_argument(words)
        if empty:
            print(f"error: {empty}", file=sys.stderr)
            return 2
        with say_if_killed(f"error: {_KILLED}; {_memory_advice(words)}"):
            outcome = app(list(map(_expand_home, words)), standalone_mode=False)
        code = outcome if isinstance(outcome, int) else 0
        sys.stdout.flush()
    except LookalikeError as error:
        return _failed(str(error))
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        return _failed(_known_failure(error, words) or explain_os_error(error))
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except typer.Exit as done:
        code = done.exit_code
    except Exception as error:
        known = _known_failure(error, words)
        return _usage(error) if known is None else _failed(known)
    if code == _INTERRUPTED:
        print(f"stopped{_CONTINUES.get(words[0] if words else '', '')}", file=sys.stderr)
        return 1
    return code


def _empty_argument(words: list[str]) -> str | None:
    """What to say of an argument or option that is empty, which as a path would be the current folder."""
    for before, word in itertools.pairwise(["lookalike", *words]):
        if re.fullmatch(r"--[\w-]+=", word):
            place = word.removesuffix("=")
        elif not word:
            place = before if before.startswith("-") else f"the argument after '{before}'"
        else:
            continue
        return f"{place} is empty; give a value (is a variable of the shell not set?), or . for the current folder"
    return None


def _expand_home(word: str) -> str:
    """`~/x`, `-o~/x`, `--out=~/x` and `--set=model.weights=~/x` with the home directory; shells know only the first."""
    found = re.fullmatch(r"(-\w|(?:[\w.-]+=)*)(~(?:/.*)?)", word, re.DOTALL)
    return found[1] + os.path.expanduser(found[2]) if found else word


def _failed(message: str) -> int:
    """Prints an error on one line, whatever its message holds."""
    with contextlib.suppress(OSError):
        line = " ".join(message.split())
        print("error: " + line.encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
    return 1


def _closed_pipe() -> int:
    """Ends quietly when the reader of our output, such as `head`, has enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still buffered
    return 1


def _memory_advice(words: Sequence[str]) -> str:
    other = "give it more memory, or use a model of smaller images (data.image_size)"
    return _MEMORY_ADVICE.get(words[0] if words else "", other)


def _known_failure(error: Exception, words: Sequence[str]) -> str | None:
    """What to say of failures that other libraries report with errors of their own; None for a bug."""
    if is_out_of_memory(error):
        return f"out of memory ({first_line(error)}); {_memory_advice(words)}"
    if type(error).__name__ == "SafetensorError":
        return f"cannot read or write a safetensors file ({first_line(error)}); free space or save it again"
    if "Too many open files" in str(error):
        return "too many open files; raise the limit (ulimit -n) or set data.workers=0"
    return None


def _usage(error: Exception) -> int:
    """2 for a command that typer refuses, with its message; any other exception is a bug and is raised."""
    show_it = getattr(error, "show", None)
    if show_it is None:
        raise error
    show_it()
    if advice := _setting_instead(error):
        print(advice, file=sys.stderr)
    return int(getattr(error, "exit_code", 2))


def _setting_instead(error: Exception) -> str:
    """How a setting is given that somebody took for an option: `--epochs 3` is `--set train.epochs=3`."""
    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if not option or context is None or all("--set" not in one.opts for one in context.command.params):
        return ""
    from lookalike.config.experiment import Experiment
    from lookalike.config.setting_facts import setting_facts

    word = option.lstrip("-").replace("-", "_").replace(".", "_")
    for name, _, _ in setting_facts(Experiment):
        if word in (name.split(".")[-1], name.removesuffix(".name"), name.replace(".", "_")):
            return f"A setting is given with --set: --set {name}=VALUE"
    return ""
