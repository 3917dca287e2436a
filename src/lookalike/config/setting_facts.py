"""Name, default and description of every setting, read from the schema for the command line and the reference page."""

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel


def setting_facts(model: type[BaseModel], prefix: str = "") -> list[tuple[str, Any, str]]:
    """Name, default and meaning of everything that can be set."""
    facts: list[tuple[str, Any, str]] = []
    for name, info in model.model_fields.items():
        kind = info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            facts += setting_facts(kind, f"{prefix}{name}.")
        else:
            text, choices = info.description or "", _choices(kind)
            if not all(choice in text for choice in choices):
                text += f" (one of: {', '.join(choices)})"
            facts.append((f"{prefix}{name}", info.default, text))
    return facts


def _choices(annotation: Any) -> list[str]:
    """The values of a setting that takes a few only."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    return [choice for part in get_args(annotation) for choice in _choices(part)]
