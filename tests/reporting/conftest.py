"""A finished run without training: drawn images, embeddings from a seed, and the files of its run directory."""

import numpy as np
import pytest

from lookalike.config.experiment import Experiment
from lookalike.evaluation import evaluate
from lookalike.training.fit import FitResult
from lookalike.training.run_dir import RunDir
from lookalike.utils.io import to_json, write_text

ENVIRONMENT = {
    "gpu": None,
    "device": "cpu",
    "threads": 1,
    "time": "2026-01-02T03:04:05",
    "packages": {"torch": "2.0"},
}


def embed_squares(table, spread):
    """A direction per class and noise, so that some classes are confused."""
    generator = np.random.default_rng(0)
    centers = generator.normal(size=(table.num_classes, 6))
    return (centers[table.labels] + spread * generator.normal(size=(len(table), 6))).astype(np.float32)


def finish_run(folder, table, *, spread=1.0, trained=True, extra=None):
    """Writes what a run leaves behind, and returns its result and embeddings."""
    start, final = embed_squares(table, 2 * spread), embed_squares(table, spread)
    before, after = (
        evaluate(matrix, table.labels, class_names=table.class_names) for matrix in (start, final)
    )
    run = RunDir(folder)
    folder.mkdir()
    run.create(Experiment(), {}, ENVIRONMENT)
    after.save(folder / "test_queries")
    history = [
        {"stage": "select", "epoch": epoch, "loss": loss, "validation": matrix.to_dict()}
        for epoch, loss, matrix in ((0, None, before), (1, 4.5, after))[: 2 if trained else 1]
    ]
    write_text(folder / "log.jsonl", "".join(to_json(line) + "\n" for line in history))
    result = {
        "start": before.to_dict(),
        "validation": after.to_dict(),
        "test_start": before.to_dict(),
        "test": after.to_dict(),
        "selected": {
            "by": "map_at_r of 4 validation classes", "what": "trained", "epoch": 1, "epochs_trained": 1,
            "test_used_to_select": False,
        },
        "data": {
            "name": table.name,
            "digest": "0123456789abcdef",
            "split_digest": "fedcba9876543210",
            "classes": {"test": table.num_classes},
        },
        "mode": "frozen",
        "loss": "proxy_anchor",
        "seed": 0,
        "seconds": {"training": 3.2, "total": 4.0},
        "in_words": ["For 28 of 100 images, the most similar image shows the same class."],
    }  # fmt: skip
    return run, FitResult(result | (extra or {}), table, start, final)


@pytest.fixture
def run(tmp_path, squares):
    """A run whose test images are the drawn squares."""
    return finish_run(tmp_path / "run", squares)
