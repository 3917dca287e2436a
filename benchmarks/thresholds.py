"""Whether `lookalike calibrate` keeps its promise: thresholds chosen on validation classes, measured on test classes.

    python -m benchmarks.thresholds RUN DATA [--classes N] [--keep FILE.npz] [--json FILE]

The first table has, for each target, the rates that `calibrate` states and those of all pairs of the test classes,
which the model never saw. The second compares two ways to call a query unknown, at the same false-match rate:
by the similarity of its nearest image, and by the margin between that similarity and the nearest image of
another class. Half of the classes are in the gallery; the bar is chosen on the validation classes.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.embedding import embed
from lookalike.errors import ArgumentError
from lookalike.evaluation.open_set import open_set_figures
from lookalike.models.checkpoint import load_model
from lookalike.search.thresholds import PairCounts, choose_threshold, count_pairs
from lookalike.training.held_out import held_out_images
from lookalike.training.run_dir import RunDir

TARGETS = (
    ("precision", 0.95),
    ("precision", 0.8),
    ("false_match_rate", 0.001),
    ("false_match_rate", 0.01),
    ("recall", 0.9),
)
FALSE_MATCH_RATES = (0.01, 0.1)
HALVES = 20


def embedded(run: str, data: str, part: str, most: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors and labels of the run's validation or test classes, at most so many classes."""
    table, _ = held_out_images(RunDir(Path(run)), data, part=part)
    if most is not None and table.num_classes > most:
        table = table.of_classes(np.arange(most))
    model, _ = load_model(run)
    matrix = embed(model, table, device="cpu").matrix
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True), table.labels


def rates_at(counts: PairCounts, similarity: float) -> dict[str, float]:
    """Precision, recall and false-match rate of all pairs at a threshold."""
    at = int(np.searchsorted(PairCounts.edges(), similarity))
    same, different = counts.same.sum(axis=0), counts.different.sum(axis=0)
    right, wrong = int(same[at:].sum()), int(different[at:].sum())
    return {
        "precision": right / max(1, right + wrong),
        "recall": right / int(same.sum()),
        "false_match_rate": wrong / int(different.sum()),
    }


def scores(
    units: np.ndarray, labels: np.ndarray, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Per query: similarity and margin, whether its nearest is of its class, whether its class is in the gallery."""
    classes = np.unique(labels)
    held = np.random.default_rng(seed).permutation(classes)[: len(classes) // 2]
    known = np.isin(labels, held)
    gallery = np.flatnonzero(known)
    sims = units @ units[gallery].T
    sims[gallery, np.arange(len(gallery))] = -2
    best = sims.argmax(axis=1)
    nearest = sims[np.arange(len(sims)), best]
    sims[labels[gallery][None] == labels[gallery][best][:, None]] = -2
    return (
        {"similarity": nearest, "margin": nearest - sims.max(axis=1)},
        labels[gallery][best] == labels,
        known,
    )


def compare_ways(validation: Any, test: Any) -> list[dict[str, float | str]]:
    """For each way and false-match rate: detection rate and false-match rate on the test classes; means over halves."""
    rows: list[dict[str, float | str]] = []
    for way in ("similarity", "margin"):
        for rate in FALSE_MATCH_RATES:
            found = []
            for seed in range(HALVES):
                chosen, _, known = scores(*validation, seed)
                bar = float(np.quantile(chosen[way][~known], 1 - rate, method="higher"))
                measured, right, known = scores(*test, seed)
                value = measured[way]
                own = open_set_figures(value[known], right[known], value[~known], rates=(rate,))
                found.append(
                    (
                        (right & (value > bar))[known].mean(),
                        (value > bar)[~known].mean(),
                        own.detection_rates[rate],
                        own.auroc,
                    )
                )
            names = ("detected", "false_match_rate", "detected_at_its_own_bar", "auroc")
            means = dict(zip(names, np.mean(found, axis=0).round(4).tolist(), strict=True))
            rows.append({"by": way, "wanted_false_match_rate": rate, **means})
    return rows


def main() -> None:
    """Embeds both parts, prints both tables, and writes them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run")
    parser.add_argument("data")
    parser.add_argument("--classes", type=int, help="at most so many test classes")
    parser.add_argument("--keep", type=Path, help="embeddings are written here, and read if the file exists")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.keep and options.keep.exists():
        kept = np.load(options.keep)
        validation, test = (kept["v"], kept["vl"]), (kept["t"], kept["tl"])
    else:
        validation = embedded(options.run, options.data, "validation", None)
        test = embedded(options.run, options.data, "test", options.classes)
        if options.keep:
            np.savez(options.keep, v=validation[0], vl=validation[1], t=test[0], tl=test[1])
    counts, other = count_pairs(*validation), count_pairs(*test)
    print(
        f"validation: {len(validation[1])} images, {len(counts.same)} classes; test: {len(test[1])}, {len(other.same)}"
    )
    promised = []
    for target, wanted in TARGETS:
        try:
            chosen = choose_threshold(counts, target=target, wanted=wanted)
        except ArgumentError as error:
            promised.append({"target": target, "wanted": wanted, "threshold": None, "why": str(error)})
            print(json.dumps(promised[-1]), flush=True)
            continue
        promised.append(
            {
                "target": target,
                "wanted": wanted,
                "threshold": round(chosen.similarity, 4),
                "interval": [round(chosen.low, 4), round(chosen.high, 4)],
                "validation": rates_at(counts, chosen.similarity),
                "test": rates_at(other, chosen.similarity),
                "test_at_the_interval": [rates_at(other, bar)[target] for bar in (chosen.low, chosen.high)],
            }
        )
        print(json.dumps(promised[-1]), flush=True)
    ways = compare_ways(validation, test)
    for row in ways:
        print(json.dumps(row))
    if options.json:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        facts = {
            "command": f"python -m benchmarks.thresholds {' '.join(sys.argv[1:])}",
            "date": datetime.now(UTC).isoformat(timespec="minutes"),
            "commit": commit.stdout.strip(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        }
        options.json.write_text(
            json.dumps({**facts, "targets": promised, "unknown": ways}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
