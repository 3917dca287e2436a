"""From a run and its images to an index: makes it if absent, brings it up to date otherwise."""

from collections.abc import Collection, Sequence
from pathlib import Path

from lookalike.data.read import read
from lookalike.data.screen import ON_BAD_FILE
from lookalike.errors import ArgumentError, FileError
from lookalike.models.checkpoint import fingerprint, load_model, save_model
from lookalike.models.embedder import Embedder
from lookalike.search.calibrate import stored_threshold
from lookalike.search.columns import read_columns
from lookalike.search.encoder import MODEL, ImageEncoder
from lookalike.search.facts import INDEX, stored_uri
from lookalike.search.index import ImageIndex
from lookalike.search.report import IndexReport
from lookalike.search.update import Update
from lookalike.utils.progress import Progress
from lookalike.utils.validation import check_choice


def build_index(
    run: str | Path,
    images: str | Path,
    out: str | Path,
    *,
    engine: str | None = None,
    uri: str | None = None,
    prune: bool = False,
    layout: str | None = None,
    verify: bool = False,
    ignore_labels: Collection[str] = (),
    on_bad_file: str = "skip",
    device: str = "auto",
    progress: Progress | None = None,
) -> IndexReport:
    """Adds the images of `images` to the index `out`, embedded by the run's model; makes the index if absent.

    Args:
        run: a run or model folder.
        images: whatever `data.read.read` takes: a folder, a table, an archive, "glyphs".
        out: the index folder.
        engine: of `search.ENGINES`, for a new index; None: exact.
        uri: of the engine's server or file, for a new index.
        prune: also remove entries below the images' folder whose files are gone or no longer listed.
        layout, verify, ignore_labels: see `data.readers.plain.ReadOptions`. Without `verify` a table may list files
            that have gone.
        on_bad_file: "skip" names broken images and continues, "fail" stops at the first.
        device: "auto", "cpu", "cuda" or "mps".
        progress: reports the embedding.

    Raises:
        ArgumentError: `out` was built by another model or engine, or is the folder of the images.
        FileError: no model in `run`, or another process is changing the index.
        DataError: no images, or (on_bad_file="fail") a broken one.
    """
    check_choice("on_bad_file", on_bad_file, ON_BAD_FILE)
    embedder, config = load_model(run)
    encoder = ImageEncoder.of(embedder, device)
    table = read(images, layout=layout, verify=verify, labeled=False, ignore_labels=ignore_labels)
    columns = read_columns(images, table)
    out = Path(out)
    if table.root.resolve().is_relative_to(out.resolve()):
        raise ArgumentError(f"'{out}' is the folder of the images; name another folder for the index")
    with _opened(out, run, encoder, embedder, config["class_names"], engine, uri) as index:
        update = Update(index, encoder, table, columns, on_bad_file == "fail", IndexReport(out))
        try:
            update.run(progress or Progress())
            if prune:
                update.prune()
            else:
                update.count_missing()
        finally:
            update.finish()
        update.report.notes += [note for note in table.notes if "columns that are not used" not in note]
        index.engine.save()
        threshold = stored_threshold(run, encoder.fingerprint)
        if threshold is not None and threshold != index.facts.threshold:
            index.set_facts(threshold=threshold)
        update.report.images = len(index)
    return update.report


def _opened(
    out: Path,
    run: str | Path,
    encoder: ImageEncoder,
    embedder: Embedder,
    class_names: Sequence[str],
    engine: str | None,
    uri: str | None,
) -> ImageIndex:
    if not (out / INDEX).is_file():
        index = ImageIndex.create(
            out, fingerprint=encoder.fingerprint, dim=encoder.dim, engine=engine or "exact", uri=uri
        )
        save_model(out / MODEL, embedder, class_names=class_names)
        return index
    index = ImageIndex.open(out, writable=True, repair=True)
    try:
        facts = index.facts
        if facts.fingerprint != encoder.fingerprint:
            raise ArgumentError(
                f"index '{out}' was built by model {facts.fingerprint[:12]}, '{run}' holds {encoder.fingerprint[:12]} "
                "(training on changes a run's model); give another --out, or remove the folder to build it again"
            )
        if engine not in (None, facts.engine) or stored_uri(uri) not in (None, facts.uri):
            raise ArgumentError(
                f"index '{out}' uses engine '{facts.engine}'{f' at {facts.uri}' if facts.uri else ''}; give another "
                "--out for another engine"
            )
        if not _holds(out / MODEL, facts.fingerprint):
            save_model(out / MODEL, embedder, class_names=class_names)
    except BaseException:
        index.close()
        raise
    return index


def _holds(folder: Path, wanted: str) -> bool:
    """Whether the index's copy of its model is whole: an earlier command may have been ended, or a disk failed."""
    try:
        return fingerprint(load_model(folder)[0]) == wanted
    except FileError:
        return False
