"""Damaged and hostile files: a reader gives what was written, or refuses with one line, and raises nothing else."""

import json
import shutil
import tarfile
import zipfile

import numpy as np
import polars
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookalike.config.experiment import Experiment, load_experiment
from lookalike.data.read import read
from lookalike.data.readers.archives import NOTES
from lookalike.errors import LookalikeError
from lookalike.evaluation import evaluate
from lookalike.evaluation.compare import load_result
from lookalike.evaluation.files import read_embeddings
from lookalike.models import build_embedder
from lookalike.models.checkpoint import load_model, save_model
from lookalike.search import ImageIndex
from lookalike.search.build import build_index
from lookalike.training.run_dir import RunDir
from lookalike.training.tensor_tree import load_tree, save_tree
from toys import photo_folders

few = settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
ACCIDENTS = st.tuples(st.sampled_from(["flip", "cut", "zero", "insert"]), st.floats(0, 1), st.integers(0, 7))


def damaged(content, accident):
    """The bytes with a flipped bit, without their end, with a block of zeros, or with a byte too much."""
    kind, share, bit = accident
    at = min(int(share * len(content)), len(content) - 1)
    if kind == "flip":
        return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
    if kind == "cut":
        return content[:at]
    if kind == "zero":
        return content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :]
    return content[:at] + b"\x00" + content[at:]


def read_model(folder):
    embedder, config = load_model(folder)
    return {name: value.numpy().tobytes() for name, value in embedder.state_dict().items()}, config


def read_state(folder):
    tree = load_tree(folder / "select")
    return tree["epoch"], tree["weights"].numpy().tobytes()


def search_index(folder):
    with ImageIndex.open(folder) as index:
        ids = index.catalog.ids().tolist()
        return ids, index.search(index.vectors(ids[:2]), 3, fingerprint=index.facts.fingerprint)


def read_result(run):
    return RunDir(run).read_json("result.json")


def read_queries(run):
    saved = load_result(run)
    return saved.summary, {name: values.tobytes() for name, values in saved.per_query.items()}


def read_paths(file):
    table = read(file, verify=False)
    return table.paths, table.labels.tolist(), table.class_names


def read_matrix(file):
    embeddings, labels = read_embeddings(file)
    return np.asarray(embeddings).tobytes(), labels.tolist()


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """One good file or folder of each format."""
    folder = tmp_path_factory.mktemp("originals")
    photos = photo_folders(folder / "photos", classes=4, each=3)
    save_model(folder / "model", build_embedder("test_resnet", weights="none", size=32, embedding_dim=8))
    (folder / "state").mkdir()
    save_tree(folder / "state" / "select", {"epoch": 3, "weights": torch.arange(600.0)})
    build_index(folder / "model", photos, folder / "index", device="cpu")
    Experiment().save(folder / "experiment.yaml")
    (folder / "run").mkdir()
    RunDir(folder / "run").write_json(
        "result.json", {"test": {"recall_at_1": 0.5}, "seconds": {"training": 3.25}}
    )
    evaluate(np.eye(4, dtype=np.float32)[[0, 0, 1, 1]], [0, 0, 1, 1]).save(folder / "run" / "test_queries")
    rows = [(str(file.relative_to(folder)), file.parent.name) for file in sorted(photos.rglob("*.png"))]
    frame = polars.DataFrame(rows, schema=["path", "label"], orient="row")
    frame.write_csv(folder / "table.csv")
    frame.write_parquet(folder / "table.parquet")
    frame.write_ndjson(folder / "table.jsonl")
    with zipfile.ZipFile(folder / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, _ in rows:
            archive.write(folder / path, path)
    with tarfile.open(folder / "photos.tar.gz", "w:gz") as archive:
        archive.add(photos, "photos")
    matrix, labels = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3
    np.savez(folder / "vectors.npz", embeddings=matrix, labels=labels)
    return folder


FORMATS = {
    "model.safetensors": ("model", "model.safetensors", read_model, True),
    "state.json": ("state", "select.json", read_state, True),
    "state.safetensors": ("state", "select.a.safetensors", read_state, True),
    "index.json": ("index", "index.json", search_index, False),
    "catalog": ("index", "catalog.sqlite", search_index, False),
    "index model": ("index", "model/model.safetensors", lambda folder: read_model(folder / "model"), True),
    "result.json": ("run", "result.json", read_result, True),
    "test_queries.json": ("run", "test_queries.json", read_queries, True),
    "test_queries.npz": ("run", "test_queries.npz", read_queries, True),
    "experiment.yaml": ("experiment.yaml", "", load_experiment, False),
    "table.csv": ("table.csv", "", read_paths, False),
    "table.parquet": ("table.parquet", "", read_paths, False),
    "table.jsonl": ("table.jsonl", "", read_paths, False),
    "photos.zip": ("photos.zip", "", read_paths, True),
    "photos.tar.gz": ("photos.tar.gz", "", read_paths, True),
    "vectors.npz": ("vectors.npz", "", read_matrix, True),
}
"""Folder or file, the file in it that is damaged, its reader, and whether the format has checksums."""


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_refused_or_read_as_it_was(name, originals, tmp_path, own_cache):
    source, inner, reader, checked = FORMATS[name]
    place = tmp_path / source
    (shutil.copytree if (originals / source).is_dir() else shutil.copy)(originals / source, place)
    shutil.copytree(originals / "photos", tmp_path / "photos")
    file = place / inner if inner else place
    content, whole, seen = file.read_bytes(), reader(place), []

    @few
    @given(ACCIDENTS)
    def check(accident):
        file.write_bytes(damaged(content, accident))
        try:
            found = reader(place)
        except LookalikeError as error:
            seen.append(str(error))
        else:
            assert not checked or found == whole

    check()
    assert seen
    assert "\n" not in "".join(seen)
    file.write_bytes(content)
    assert reader(place) == whole


def nested(depth):
    return f"{'[' * depth}{']' * depth}"


ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 9)}]\n"
    for last, this in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch pwned']",
        "train: !!python/name:os.system",
        ALIASES,
        nested(3000),
        "train: {epochs: !!binary aGk=}",
        "? [a, b]\n: c",
        "train:\n\tepochs: 3",
        "\x00\x01",
        "train: {epochs: .inf}",
        "- 1\n- 2",
    ],
)
def test_hostile_settings_are_refused_in_a_line(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "experiment.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LookalikeError) as caught:
        load_experiment(file)
    assert len(str(caught.value)) < 2000
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    "header",
    [
        b"\xff" * 8,  # a header of 2**64 - 1 bytes
        (10**9).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        len(
            lie := json.dumps({"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
        ).to_bytes(8, "little")
        + lie,
    ],
)
def test_a_safetensors_header_that_lies_is_refused(header, originals, tmp_path):
    shutil.copytree(originals / "model", tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(header)
    with pytest.raises(LookalikeError):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "shape", ["(4000000000000, 4)", "(-1, 4)", "(12,)", "'x'", "(12, 4, __import__('os'))"]
)
def test_an_npy_header_that_lies_is_refused(shape, tmp_path):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + bytes(192)
    (tmp_path / "x.npy").write_bytes(content)
    np.save(tmp_path / "labels.npy", np.zeros(12, dtype=np.int64))
    with pytest.raises(LookalikeError):
        read_embeddings(tmp_path / "x.npy", tmp_path / "labels.npy")


def bomb(file):
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a/0.bmp", "w") as stream:
        for _ in range(40):
            stream.write(bytes(1 << 20))


def member(name, kind=tarfile.REGTYPE, link=""):
    def write(file):
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, link
        with tarfile.open(file, "w") as archive:
            archive.addfile(info)

    return write


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".zip", bomb),
        (".tar", member("../out.png")),
        (".tar", member("/tmp/out.png")),
        (".tar", member("C:\\out.png")),
        (".tar", member("a/0.png", tarfile.SYMTYPE, "/etc/passwd")),
        (".tar", member("a/0.png", tarfile.LNKTYPE, "/etc/passwd")),
        (".tar", member("a/0.png", tarfile.CHRTYPE)),
    ],
)
def test_hostile_archives_are_refused_and_leave_nothing(suffix, write, tmp_path, own_cache, monkeypatch):
    monkeypatch.setattr("lookalike.data.readers.archives.ALWAYS_ALLOWED", 1 << 20)
    file = tmp_path / f"x{suffix}"
    write(file)
    with pytest.raises(LookalikeError):
        read(file)
    left = [
        path
        for path in own_cache.rglob("*")
        if path.is_file() and path.suffix != ".lock" and path.name != NOTES
    ]
    assert left == []
    assert not (tmp_path / "out.png").exists()
