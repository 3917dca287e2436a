"""lookalike cache: what cached activations take, and how to remove them."""

from typing import Annotated

import typer

from lookalike.cli.common import Json, print_json, print_rows

app = typer.Typer(
    help="List, limit or clear cached activations.",
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog="LOOKALIKE_CACHE moves the cache; LOOKALIKE_CACHE_LIMIT, such as 20GB (default 50GB), limits it.",
)

Size = Annotated[str, typer.Argument(help="Such as 20GB or 500MB.")]


@app.command("list", epilog="Example: lookalike cache list")
def show(json: Json = False) -> None:
    """List cached activations, the least recently used first."""
    from lookalike.training.feature_cache import activation_store
    from lookalike.utils.array_store import describe
    from lookalike.utils.cache_dir import cache_limit, format_size

    store = activation_store()
    entries = store.entries()
    if json:
        print_json([vars(entry) for entry in entries])
        return
    print_rows(["entry", "size", "last used", "content"], [describe(entry) for entry in entries])
    total = format_size(sum(entry.size for entry in entries))
    print(f"{len(entries)} entries, {total} of at most {format_size(cache_limit())}, in {store.folder}")


@app.command("clear", epilog="Example: lookalike cache clear")
def clear() -> None:
    """Remove all cached activations; the next training computes what it needs again."""
    _shrink(0)


@app.command("limit", epilog="Example: lookalike cache limit 20GB")
def limit(size: Size) -> None:
    """Remove the least recently used activations until they take at most SIZE, once.

    The environment variable LOOKALIKE_CACHE_LIMIT does the same after every training that adds some.
    """
    from lookalike.utils.cache_dir import parse_size

    _shrink(parse_size(size))


def _shrink(limit: int) -> None:
    from lookalike.training.feature_cache import activation_store
    from lookalike.utils.cache_dir import format_size

    store = activation_store()
    freed = store.remove_leftovers()
    removed = store.shrink(limit)
    size = format_size(freed + sum(entry.size for entry in removed))
    print(f"removed {len(removed)} entries, {size}; {len(store.entries())} are left in {store.folder}")
