"""Writes the pages that come from the code: `make docs`.

tests/test_reference_pages.py compares them with the committed ones.

docs/index.md                    every page by kind
docs/reference/command_line.md   every command with its arguments, options and example
docs/reference/settings.md       every setting with its default
docs/reference/python_api.md     what `import lookalike` offers
docs/reference/studies.md        every table and figure of the papers
docs/reference/backbones.md      the table of recommended backbones; the rest of the page is written by hand
docs/reference/losses.md         the table of losses; the rest of the page is written by hand
docs/reference/metrics.md        the table and the entries of all metrics; the rest of the page is written by hand
"""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel

import lookalike
from lookalike.cli import app
from lookalike.config.experiment import Experiment
from lookalike.config.setting_facts import setting_facts
from lookalike.evaluation.metrics import METRICS
from lookalike.losses import LOSSES, arguments_of
from lookalike.models.recommended import recommended
from lookalike.studies import STUDIES
from lookalike.studies.published import SOURCES, citation

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference"
GENERATED = "<!-- Written by docs/generate.py; do not edit. -->\n\n"


def pages() -> dict[str, str]:
    """The text of each page, by its path below docs/."""
    generated = {
        "index.md": index(),
        "reference/command_line.md": command_line(),
        "reference/settings.md": settings(),
        "reference/python_api.md": python_api(),
        "reference/studies.md": studies(),
    }
    filled = {
        "reference/losses.md": losses(),
        "reference/metrics.md": metrics(),
        "reference/backbones.md": backbones(),
    }
    return {path: GENERATED + text for path, text in generated.items()} | filled


KINDS = {
    "tutorials": "Tutorials",
    "how_to": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "benchmarks": "Benchmarks",
}
NEW_PAGES = {"command_line.md": "Command line", "settings.md": "Settings", "python_api.md": "Python API"}
"""Titles of pages that may not have been written yet."""


def index() -> str:
    """Every page by kind, with its title."""
    blocks = [
        "# Documentation",
        "`lookalike` trains image embeddings with proxies, measures them on classes that training never saw, and "
        "searches with them. Begin with the first tutorial.",
    ]
    for folder, kind in KINDS.items():
        titles = {file.name: _title(file) for file in (DOCS / folder).glob("*.md")}
        titles |= NEW_PAGES if folder == "reference" else {}
        links = [
            f"- [{title}]({folder}/{name})"
            for name, title in sorted(titles.items(), key=lambda entry: entry[1])
        ]
        blocks += [f"## {kind}", "\n".join(links)]
    return "\n\n".join(blocks) + "\n"


def _title(file: Path) -> str:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def metrics() -> str:
    """The page of metrics, with what METRICS holds between its marks."""
    lines = ["| key | name | value of a query, or of all clusters |", "|---|---|---|"]
    lines += [f"| `{one.key}` | {one.title} | {one.formula} |" for one in METRICS.values()]
    entries = [
        f"### `{one.key}`\n\n{one.title}: `{one.formula}`. {one.meaning}\n\nElsewhere: {one.elsewhere}"
        for one in METRICS.values()
    ]
    return _filled("metrics.md", {"table": "\n".join(lines), "entries": "\n\n".join(entries)})


def losses() -> str:
    """The page of losses, with the table of LOSSES between its marks."""
    lines = ["| name | class | arguments | searched | source |", "|---|---|---|---|---|"]
    for name, kind in LOSSES.items():
        arguments = ", ".join(
            f"`{p.name}`" if p.default is p.empty else f"`{p.name}={_number(p.default)}`"
            for p in arguments_of(kind).values()
        )
        searched = ", ".join(f"`{r.name}` {r.low:g} to {r.high:g}" for r in kind.search_space)
        lines.append(f"| `{name}` | `{kind.__name__}` | {arguments} | {searched} | {kind.paper} |")
    return _filled("losses.md", {"table": "\n".join(lines)})


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def backbones() -> str:
    """The page of backbones, with the recommended ones between its marks."""
    rows = recommended()
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    table = "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)
    return _filled("backbones.md", {"recommended": table})


def _filled(name: str, parts: dict[str, str]) -> str:
    """A page written by hand, with the parts between their marks."""
    text = (REFERENCE / name).read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, _, rest = text.partition(f"<!-- {mark} -->")
        text = f"{before}<!-- {mark} -->\n\n{part}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    return text


def studies() -> str:
    """Every study: what it shows, how many rows run, and under which protocols."""
    blocks = ["# Studies", STUDIES_HEAD]
    blocks.append("\n".join(f"- `[{tag}]` {meaning}" for tag, meaning in SOURCES.items()))
    for paper in dict.fromkeys(name.partition("/")[0] for name in STUDIES):
        of_paper = [study for name, study in STUDIES.items() if name.startswith(f"{paper}/")]
        lines = ["| study | what | rows that run | cited | protocol |", "|---|---|---:|---:|---|"]
        for study in of_paper:
            run = [row for row in study.rows if row.recipe is not None]
            protocols = ", ".join(sorted({row.recipe.protocol for row in run if row.recipe is not None}))
            cells = (f"`{study.id}`", study.title, str(len(run)), str(len(study.rows) - len(run)), protocols)
            lines.append("| " + " | ".join(cells) + " |")
        blocks += [f"## {paper}", citation(paper), "\n".join(lines)]
    return "\n\n".join(blocks) + "\n"


STUDIES_HEAD = """Tables and data figures of the papers, under their own numbers; studies whose id has no number are
ours or of slides and code. `lookalike study show NAME` prints rows, recipes and published numbers. How to run one is in
[Reproduce a table](../tutorials/reproduce_a_table.md), what the protocols are in
[Protocols](../explanation/protocols.md). Not studies: diagrams (ProxyNCA++ Figure 2, Proxy-Anchor Figures 2 and 3, HPL
Figure 1) and ProxyNCA++ Figure 3, a two-dimensional toy without images, which `python examples/two_moons.py moons.svg`
draws. Published numbers have the tag of their source:"""


def command_line() -> str:
    """Every command: what it does, its arguments and options, and an example."""
    root = typer.main.get_command(app)
    blocks = [
        "# Command line",
        f"{root.help} Results go to standard output, progress to standard error. The exit code is 0 for success, "
        "1 for a failure that is explained in one line, and 2 for a command that is wrong itself.",
    ]
    for name, command in _commands(root, "lookalike"):
        blocks += [f"## {name}", _paragraphs(command.help), _parameters(command)]
        example = (command.epilog or "").removeprefix("Example: ")
        blocks += [f"```console\n$ {example}\n```"] if example else []
    return "\n\n".join(block for block in blocks if block) + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for child, inner in command.commands.items():
            yield from _commands(inner, f"{name} {child}")
    else:
        yield name, command


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n"))


def _parameters(command: Any) -> str:
    rows = []
    for parameter in command.params:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.name.upper()}`"
        shown = parameter.default not in (None, False, (), []) and not callable(parameter.default)
        default = f"`{parameter.default}`" if shown else "required" if parameter.required else ""
        rows.append(f"| {names} | {_cell(parameter.help)} | {default} |")
    return "\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows]) if rows else ""


def settings() -> str:
    """Every setting of an experiment."""
    rows = [
        f"| `{name}` | `{default}` | {_cell(text)} |" for name, default, text in setting_facts(Experiment)
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "A setting is changed with `--set NAME=VALUE`, or in a YAML file given to `--config`. `None` means that "
            "the value is chosen when the run starts, as the description says; `experiment.yaml` holds the chosen "
            "values. `lookalike list losses` and [losses](losses.md) have the settings of each loss.",
            "",
            "| setting | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def python_api() -> str:
    """Every public name with its signature and the first paragraph of its docstring."""
    blocks = [
        "# Python API",
        "Everything here is imported from `lookalike` itself; the rest of the package is reached by its modules, whose "
        "docstrings say what they hold.",
    ]
    for name in lookalike.__all__:
        value = getattr(lookalike, name)
        blocks.append(f"## {name}")
        if inspect.isclass(value) or inspect.isfunction(value):
            if not (inspect.isclass(value) and issubclass(value, Exception)):
                blocks.append(f"```python\n{_calls(name, value)}\n```")
            blocks.append(_paragraphs(inspect.getdoc(value)).split("\n\n")[0])
        else:
            blocks.append(f"A table of {len(value)} entries: {', '.join(f'`{key}`' for key in value)}.")
    return "\n\n".join(blocks) + "\n"


def _calls(name: str, value: Any) -> str:
    """How a function is called or an object made; of a class with constructors by name, these and its methods."""
    public = {key: member for key, member in vars(value).items() if not key.startswith("_")}
    makers = [key for key, member in public.items() if isinstance(member, classmethod)]
    if not makers:
        return name + _signature(value)
    methods = [key for key, member in public.items() if inspect.isfunction(member)]
    made = [f"{name}.{key}{_signature(getattr(value, key))}" for key in makers]
    return "\n".join(
        made
        + [
            f".{key}{_signature(public[key]).replace('(self, ', '(').replace('(self)', '()')}"
            for key in methods
        ]
    )


def _signature(value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseModel):
        return "(...)"  # its fields are on the page of settings
    signature = inspect.signature(value)
    bare = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    for path, text in pages().items():
        (DOCS / path).write_text(text, encoding="utf-8")
