"""Who may import whom: every module imports only from its own layer or a lower one."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "lookalike"

LAYERS = {
    0: [
        "errors",
        "checks",
        "preprocessing",
        "progress",
        "settings",
        "files",
        "tensor_tree",
        "ranking",
        "distributed",
    ],
    1: ["losses", "data", "models", "evaluation", "schedules", "optim"],
    2: ["embedding", "cache", "inputs", "optimizers", "sharded_state", "mishaps", "train"],
    3: [
        "experiment",
        "runs",
        "job",
        "feeding",
        "account",
        "selection",
        "fitting",
        "scoring",
        "protocols",
        "search",
    ],
    4: ["studies", "report"],
    5: ["cli", "__main__"],
}
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names}
PEERS = {"losses", "data", "models", "evaluation"}

ONLY_IN = {
    "timm": {"models"},
    "PIL": {"data"},
    "typer": {"cli"},
    "rich": {"progress"},
    "matplotlib": {"report", "data", "studies"},
    "sklearn": {"evaluation", "losses"},
    "faiss": {"evaluation", "search"},
    "optuna": {"protocols"},
}

FILES = sorted(SOURCE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).with_suffix("").parts[0]


def imported(file: Path):
    """Dotted names of everything that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_only_downwards(file):
    room = room_of(file)
    if room == "__init__":
        return  # the public door names everything, and loads it only when asked
    for name in imported(file):
        top, *rest = name.split(".")
        if top == "lookalike" and rest and rest[0] in LAYER_OF:
            other = rest[0]
            assert LAYER_OF[other] <= LAYER_OF[room], f"{file.name} (layer {LAYER_OF[room]}) imports {name}"
            assert other == room or not {room, other} <= PEERS, f"{file.name} imports its peer {name}"
        assert room in ONLY_IN.get(top, {room}), f"{file.name} imports {top}, which belongs to {ONLY_IN[top]}"


def test_every_module_has_a_layer():
    rooms = {room_of(file) for file in FILES} - {"__init__"}
    assert rooms <= set(LAYER_OF), f"without a layer: {rooms - set(LAYER_OF)}"
