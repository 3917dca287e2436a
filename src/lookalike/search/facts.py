"""`index.json`: what an index is, apart from its images: model, engine, threshold, measured recall.

It is written in one step, and last of all when an index is made: a folder without it is no index.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lookalike.errors import FileError
from lookalike.search.engines.base import REMEDY, EngineLocation
from lookalike.utils.io import read_json, write_json
from lookalike.utils.what_is import found_instead

FORMAT = 2
INDEX = "index.json"


@dataclass(frozen=True)
class IndexFacts:
    """The content of `index.json`.

    Attributes:
        name: of the index's table or collection in a server.
        fingerprint: of the model whose vectors it holds (`models.checkpoint.fingerprint`).
        dim: width of the vectors.
        engine: of `search.engines.ENGINES`.
        uri: of the engine's server or file, without a password; None for engines in the folder.
        threshold: as `lookalike calibrate` left it; None before.
        check: recall and rate as `lookalike index check` measured them; None before.
    """

    name: str
    fingerprint: str
    dim: int
    engine: str
    uri: str | None = None
    threshold: dict[str, Any] | None = None
    check: dict[str, Any] | None = None
    format: int = FORMAT


def write_facts(folder: Path, facts: IndexFacts) -> None:
    """Writes `index.json` in one step."""
    write_json(folder / INDEX, asdict(facts))


def read_facts(folder: Path) -> IndexFacts:
    """The facts of an index.

    Raises:
        FileError: no index there, a damaged one, or one of another format.
    """
    file = folder / INDEX
    if not file.is_file():
        raise FileError(
            f"no index in '{folder}'{found_instead(folder)}; expected an index folder (with {INDEX}); build one with: "
            "lookalike index RUN IMAGES --out INDEX"
        )
    try:
        content: dict[str, Any] = read_json(file)
        if content.get("format") == FORMAT:
            return _checked(IndexFacts(**content))
    except (FileError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise FileError(f"'{file}' is damaged ({error}); {REMEDY}") from error
    raise FileError(
        f"index '{folder}' has format {content.get('format')}, this version reads {FORMAT}; {REMEDY}"
    )


def _checked(facts: IndexFacts) -> IndexFacts:
    """The facts, if their values are of the kinds that were written."""
    texts = (facts.name, facts.fingerprint, facts.engine, facts.uri or "")
    if not all(isinstance(text, str) for text in texts) or not isinstance(facts.dim, int) or facts.dim < 1:
        raise ValueError("name, fingerprint, engine, uri and dim are not as they were written")
    if facts.threshold is not None and not -1 <= float(facts.threshold["similarity"]) <= 1:
        raise ValueError("the threshold is not a cosine")
    return facts


def stored_uri(uri: str | None) -> str | None:
    """A URI as the index keeps it: files by their absolute path, so that it can be opened from anywhere."""
    return uri if uri is None or "://" in uri else str(Path(uri).absolute())


def engine_location(folder: Path, facts: IndexFacts, *, writable: bool) -> EngineLocation:
    """Where the engine of an index keeps its vectors."""
    return EngineLocation(folder / "vectors", facts.dim, facts.name, facts.uri, writable)
