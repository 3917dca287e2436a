"""Time and memory of `evaluate`, the bare matrix product, and pytorch-metric-learning.

    python -m benchmarks.evaluation [--short] [--rounds N] [--only SIZE] [--contenders A,B] [--json FILE] [--clustering]

Each contender runs in a process of its own, which also gives its peak memory (interpreter, torch, the embeddings
and the work). Rounds alternate between the contenders; the least time of each counts. With OMP_NUM_THREADS=1 the CPU
seconds are comparable on a machine that runs other programs too.

floor       all similarities by torch.mm in 2,048 x 2,048 tiles into one buffer, nothing looked at
ours        `evaluate`: recall, precision and IR recall at 1, 2, 4, 8, MAP@R, R-precision, MRR, per class
pml best    AccuracyCalculator(k="max_bin_count") with faiss (exact inner product), without NMI and AMI
pml default AccuracyCalculator() without NMI and AMI: k = everything; skipped if that needs over 8 GB
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

SETTINGS = {
    "Cars size": {"queries": 8131, "gallery": 0, "classes": 98},
    "In-Shop size": {"queries": 14218, "gallery": 12612, "classes": 3985},
    "SOP size": {"queries": 60502, "gallery": 0, "classes": 11316},
}
DIM = 512
NOISE = 2.0


def draw(queries: int, gallery: int, classes: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Class centers plus noise of varying strength; labels shuffled, at least two of every class."""
    generator = np.random.default_rng(seed)
    centers = generator.normal(size=(classes, DIM)).astype(np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)

    def some(count: int, least: int) -> tuple[np.ndarray, np.ndarray]:
        rest = generator.integers(0, classes, count - least * classes)
        labels = generator.permutation(np.concatenate([np.tile(np.arange(classes), least), rest]))
        strength = NOISE * np.exp(0.35 * generator.normal(size=(count, 1))) / DIM**0.5
        rows = centers[labels] + strength * generator.normal(size=(count, DIM))
        return rows.astype(np.float32), labels

    rows, labels = some(queries, 2 if not gallery else 1)
    out = {"rows": rows, "labels": labels}
    if gallery:
        out["gallery"], out["gallery_labels"] = some(gallery, 1)
    return out


def floor(data: dict[str, np.ndarray]) -> dict[str, float]:
    """Unit vectors, then every tile."""
    left = torch.nn.functional.normalize(torch.from_numpy(data["rows"]))
    right = (
        left if "gallery" not in data else torch.nn.functional.normalize(torch.from_numpy(data["gallery"]))
    )
    tile = 2048
    memory = torch.empty(tile * tile)
    for i in range(0, len(left), tile):
        for j in range(0, len(right), tile):
            a, b = left[i : i + tile], right[j : j + tile]
            torch.mm(a, b.T, out=memory[: len(a) * len(b)].view(len(a), len(b)))
    return {}


def ours(data: dict[str, np.ndarray]) -> dict[str, float]:
    """`evaluate` with its defaults."""
    from lookalike.evaluation import evaluate

    other = {} if "gallery" not in data else {
        "gallery_embeddings": data["gallery"], "gallery_labels": data["gallery_labels"]
    }  # fmt: skip
    return evaluate(data["rows"], data["labels"], **other).values


def peer(data: dict[str, np.ndarray], k: str | None) -> dict[str, float]:
    """pytorch-metric-learning's calculator on the same unit vectors."""
    import faiss
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
    from pytorch_metric_learning.utils.inference import FaissKNN

    calculator = AccuracyCalculator(
        exclude=("NMI", "AMI"),
        k=k,
        device=torch.device("cpu"),
        knn_func=FaissKNN(index_init_fn=faiss.IndexFlatIP, gpus=None),
    )
    rows = torch.nn.functional.normalize(torch.from_numpy(data["rows"]))
    labels = torch.from_numpy(data["labels"])
    if "gallery" not in data:
        return dict(calculator.get_accuracy(rows, labels))
    gallery = torch.nn.functional.normalize(torch.from_numpy(data["gallery"]))
    return dict(calculator.get_accuracy(rows, labels, gallery, torch.from_numpy(data["gallery_labels"])))


CONTENDERS: dict[str, Callable[[dict[str, np.ndarray]], dict[str, float]]] = {
    "floor": floor,
    "ours": ours,
    "pml best": lambda data: peer(data, "max_bin_count"),
    "pml default": lambda data: peer(data, None),
}


def child(name: str, file: str) -> None:
    """Runs one contender and prints its figures as one line of JSON."""
    warnings.simplefilter("ignore")
    with np.load(file) as arrays:
        data = {key: arrays[key] for key in arrays.files}
    warm = torch.ones(256, 256)
    torch.mm(warm, warm)
    if name.startswith("pml"):
        import pytorch_metric_learning.utils.accuracy_calculator  # noqa: F401
    start, start_cpu = time.perf_counter(), time.process_time()
    values = CONTENDERS[name](data)
    seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
    peak = peak_mb()
    print(json.dumps({"seconds": seconds, "cpu": cpu, "peak_mb": peak, "values": values}))


def peak_mb() -> float:
    """Largest resident memory of this process; unlike ru_maxrss without what its parent held."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(name: str, file: Path) -> dict[str, Any]:
    """The figures of one contender, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.evaluation", "--child", name, "--data", str(file)],
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


def compare(
    title: str, sizes: dict[str, int], rounds: int, folder: Path, contenders: list[str]
) -> dict[str, Any]:
    """Prints one table and returns its figures."""
    file = folder / "data.npz"
    data = draw(**sizes)
    np.savez(file, **data)
    largest = sizes["gallery"] or sizes["queries"]
    names = contenders
    if sizes["queries"] * largest * 12 > 8e9:
        names = [name for name in names if name != "pml default"]
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            figures[name].append(measure(name, file))
    against = f" against {sizes['gallery']:,}" if sizes["gallery"] else ""
    print(f"\n{title}: {sizes['queries']:,} x {DIM}{against}, {sizes['classes']:,} classes")
    base, base_cpu = (min(one[key] for one in figures["floor"]) for key in ("seconds", "cpu"))
    head = "".join(f"{word:>10}" for word in ("seconds", "of floor", "CPU s", "of floor", "peak MB"))
    print(f"{'':<12}{head}  recall@1  MAP@R")
    for name, runs in figures.items():
        best, cpu = (min(one[key] for one in runs) for key in ("seconds", "cpu"))
        peak = max(one["peak_mb"] for one in runs)
        values = runs[0]["values"]
        first = values.get("recall_at_1", values.get("precision_at_1"))
        mean = values.get("map_at_r", values.get("mean_average_precision_at_r"))
        quality = f"  {first:8.4f}  {mean:.4f}" if first is not None and mean is not None else ""
        print(
            f"{name:<12} {best:9.2f} {best / base:9.2f} {cpu:9.2f} {cpu / base_cpu:9.2f} {peak:9.0f}{quality}"
        )
    if "pml default" in contenders and "pml default" not in names:
        bytes_needed = sizes["queries"] * largest * 12 / 1e9
        print(f"pml default  not run: its neighbor table alone would take {bytes_needed:.0f} GB")
    return {"size": title, **sizes, "dim": DIM, "contenders": figures}


def clusters(sizes: dict[str, int], seeds: int) -> None:
    """NMI of every engine."""
    from lookalike.evaluation import cluster_scores

    data = draw(**sizes)
    print(f"\nclustering: {sizes['queries']:,} x {DIM}, k = {sizes['classes']:,}")
    for engine in ("faiss", "sklearn"):
        for seed in range(seeds):
            start, start_cpu = time.perf_counter(), time.process_time()
            scores = cluster_scores(data["rows"], data["labels"], engine=engine, seed=seed)
            print(
                f"{engine:<10} seed {seed}: {time.perf_counter() - start:7.1f} s, CPU "
                f"{time.process_time() - start_cpu:7.1f} s  nmi {scores['nmi']:.4f}  "
                f"geometric {scores['nmi_geometric']:.4f}  ami {scores['ami']:.4f}",
                flush=True,
            )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="an eighth of the rows and classes")
    parser.add_argument("--only", choices=sorted(SETTINGS), help="one size")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="which, separated by commas")
    parser.add_argument("--json", type=Path, help="also write all figures to this file")
    parser.add_argument("--clustering", action="store_true", help="NMI at SOP size instead, N seeds")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.data)
        return
    share = 8 if arguments.short else 1
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start")
    scaled = {
        title: {key: value // share for key, value in sizes.items()} for title, sizes in SETTINGS.items()
    }
    if arguments.clustering:
        clusters(scaled["SOP size"], arguments.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = [
            compare(title, sizes, arguments.rounds, Path(folder), arguments.contenders.split(","))
            for title, sizes in scaled.items()
            if arguments.only in (None, title)
        ]
    if arguments.json is not None:
        machine = {
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
        }
        arguments.json.write_text(
            json.dumps({**machine, "tables": tables}, indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
