"""Search engines on the same vectors: build time, memory, disk, queries per second at which recall.

    python benchmarks/search.py --count 100000 --dim 512 --engines exact faiss --out docs/benchmarks/search.json

Vectors are 1,000 clusters of random directions with noise, unit length, from a seed; queries are drawn like
them. Each engine runs in a process of its own. Beside the engines: one product and one top-k in torch (the
floor), and faiss used by hand.
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
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from lookalike.search.engines import ENGINES, EngineLocation

BY_HAND = ("torch", "faiss_flat", "faiss_hnsw")
K = 10


def vectors(count: int, dim: int, seed: int) -> np.ndarray:
    """Unit vectors around 1,000 centers that do not depend on the seed of the draws."""
    centers = np.random.default_rng(0).standard_normal((1000, dim), dtype=np.float32)
    draws = np.random.default_rng(seed)
    out = np.empty((count, dim), np.float32)
    for start in range(0, count, 50_000):
        part = centers[draws.integers(0, 1000, min(50_000, count - start))]
        part = part + draws.standard_normal(part.shape, dtype=np.float32)
        out[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def disk(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def by_hand(name: str, base: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function from queries to the similarities of their nearest."""
    if name == "torch":
        matrix = torch.from_numpy(base)
        return lambda queries: (torch.from_numpy(queries) @ matrix.T).topk(K, dim=1).values.numpy()
    import faiss

    if name == "faiss_flat":
        index = faiss.IndexFlatIP(base.shape[1])
    else:
        index = faiss.IndexHNSWFlat(base.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 128, 128
    index.add(base)
    return lambda queries: index.search(queries, K)[0]


def measure(name: str, count: int, dim: int, queries: int, uri: str | None) -> dict:
    """One engine in this process."""
    base, asked = vectors(count, dim, 1), vectors(queries, dim, 2)
    truth = np.concatenate(
        [np.sort(q @ base.T, axis=1)[:, -K] for q in np.array_split(asked, max(1, queries // 20))]
    )
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        if name in BY_HAND:
            search = by_hand(name, base)
        else:
            place = EngineLocation(
                Path(folder), dim, f"bench_{count}_{dim}", uri or os.path.join(folder, "m.db")
            )
            engine = ENGINES[name].open(place)
            for start in range(0, count, 20_000):
                engine.add(np.arange(start, min(start + 20_000, count)), base[start : start + 20_000])
            engine.save()
            search = lambda asked: engine.search(asked, K).similarities  # noqa: E731
        build = time.perf_counter() - began
        search(asked[:1])
        times, found = [], []
        for query in asked:
            began = time.perf_counter()
            found.append(search(query[None])[0])
            times.append(time.perf_counter() - began)
        began = time.perf_counter()
        search(asked)
        together = time.perf_counter() - began
        recall = float((np.array(found) >= truth[:, None] - 1e-5).mean())
        return {
            "engine": name,
            "count": count,
            "dim": dim,
            "build_seconds": round(build, 2),
            "recall_at_10": round(recall, 4),
            "queries_per_second": round(1 / float(np.median(times)), 1),
            "queries_per_second_together": round(queries / together, 1),
            "slowest_ms": round(1000 * max(times), 1),
            "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "disk_mb": round(disk(Path(folder)) / 1e6, 1),
        }


def main() -> None:
    """Runs each engine in a process of its own and writes the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument(
        "--engines", nargs="+", default=["torch", "exact", "faiss_flat", "faiss_hnsw", "faiss"]
    )
    parser.add_argument("--uri", help="of pgvector's server")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.count, options.dim, options.queries, options.uri)))
        return
    rows = []
    for name in options.engines:
        words = [
            sys.executable,
            __file__,
            "--one",
            name,
            "--count",
            str(options.count),
            "--dim",
            str(options.dim),
        ]
        words += ["--queries", str(options.queries), *(["--uri", options.uri] if options.uri else [])]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
        if options.out:
            write(options.out, rows)


def write(out: Path, rows: list[dict]) -> None:
    """The results with command, date, commit and machine; earlier rows of other sizes stay."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    facts = {
        "command": " ".join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit.stdout.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, "
        f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS')}, load average {os.getloadavg()[0]:.1f}",
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    runs = [run for run in runs if run["command"] != facts["command"]] + [{**facts, "rows": rows}]
    out.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
