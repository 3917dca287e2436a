"""Who may import whom: every module imports only from lower layers, or from its own package."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "lookalike"

LAYERS = (
    ("errors",),
    (
        "config.defaults",
        "config.schema",
        "config.setting_facts",
        "preprocessing",
        "utils",
    ),
    ("losses", "data", "models", "evaluation", "ranking", "config.assignments", "config.combinations"),
    ("embedding", "optim", "config.experiment"),
    ("training", "search", "export"),
    ("studies", "serve", "reporting"),
    ("cli",),
    ("__main__",),
)
"""From the lowest; the packages of a layer do not import each other, but for `ALLOWED`."""

ALLOWED = {("evaluation", "ranking"), ("search", "export"), ("studies", "reporting")}
"""Pairs (importer, imported) within one layer."""

ONLY_IN = {
    "timm": {"models", "export"},
    "PIL": {
        "export.outside",
        "export.projector",
        "data.image_io",
        "data.image_bytes",
        "data.image_color",
        "data.image_depth",
        "data.image_pixels",
        "data.image_repair",
        "data.image_formats",
        "data.glyphs",
    },
    "typer": {"cli"},
    "rich": {"utils.progress", "cli"},
    "matplotlib": {"reporting", "data.glyphs", "studies.figure"},
    "sklearn": {"evaluation", "losses"},
    "faiss": {"evaluation.clustering", "search.engines.faiss"},
    "sqlite3": {"search.database", "search.catalog", "data.image_facts"},
    "psycopg": {"search.engines.pgvector"},
    "pymilvus": {"search.engines.milvus"},
    "fastapi": {"serve"},
    "starlette": {"serve"},
    "uvicorn": {"serve"},
    "huggingface_hub": {"models.pretrained", "export.hub"},
    "onnx": {"export.programs"},
    "onnxruntime": {"export.outside", "export.runtime"},
    "optuna": {"studies.protocols.hyperparameter_search"},
}
"""Packages that only these modules may import."""

LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def member_of(module: str) -> str | None:
    """The entry of `LAYERS` that a dotted name inside the package belongs to."""
    first, *rest = module.split(".")
    pair = f"{first}.{rest[0]}" if rest else first
    return next((name for name in (pair, first) if name in LAYER_OF), None)


@cache
def imported(file: Path) -> list[str]:
    """Dotted names of everything that a file imports, wherever in the file."""
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def upward_imports(file):
    """What a file imports from its own layer or above, and packages that belong to other modules."""
    module = module_of(file)
    mine = member_of(module)
    if mine is None:
        return  # the public API names everything, and loads it when it is first used; empty package files
    for name in imported(file):
        top, _, rest = name.partition(".")
        theirs = member_of(rest) if top == "lookalike" else None
        if theirs is not None and theirs != mine:
            below = LAYER_OF[theirs] < LAYER_OF[mine]
            if not below and (mine, theirs) not in ALLOWED:
                yield f"{module} imports {name}"
        owners = ONLY_IN.get(top, {module})
        if not any(module == owner or module.startswith(f"{owner}.") for owner in owners):
            yield f"{module} imports {top}, which belongs to {sorted(owners)}"


def test_imports_only_downwards():
    assert [what for file in FILES for what in upward_imports(file)] == []


def test_every_module_has_a_layer():
    modules = {module_of(file) for file in FILES} - {"__init__", "config"}
    assert not [module for module in modules if member_of(module) is None]


def test_no_import_cycle():
    """Imports inside functions count: one that hides a cycle is a cycle."""
    known = {module_of(file) for file in FILES}

    def targets(file):
        names = {name.removeprefix("lookalike.") for name in imported(file) if name.startswith("lookalike.")}
        through = {name.rpartition(".")[0] for name in names if name in known}  # packages of named modules
        return {name for name in names - through if name in known and name != module_of(file)}

    graph = {module_of(file): targets(file) for file in FILES if module_of(file) != "__init__"}
    done: set[str] = set()

    def visit(module, path):
        assert module not in path, f"import cycle: {' -> '.join([*path[path.index(module) :], module])}"
        if module not in done:
            for other in sorted(graph.get(module, ())):
                visit(other, [*path, module])
            done.add(module)

    for module in sorted(graph):
        visit(module, [])


@pytest.mark.parametrize(
    "module", ["data.load", "data.validate", "config.experiment", "training.run_dir", "cli"]
)
def test_reading_and_checking_data_does_not_load_torch(module):
    """So `lookalike train` says what it read, and `data check` starts, before torch's seconds of import."""
    code = f"import sys, lookalike.{module}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
