"""Search engines on the same vectors: build time, memory, disk, queries per second at which recall.

    python -m benchmarks.search [--short] [--long] [--only a,b] [--uri postgresql://...] [--publish] [--json FILE]

Vectors are 1,000 clusters of random directions with noise, unit length, 512 numbers, from a seed; queries are drawn
like them. Each engine runs in a process of its own, at 100,000 and at 1,000,000 vectors (--short: 20,000).

torch       the floor: one product and one topk over a matrix in memory
exact       the engine of this package, on memory-mapped files
faiss_flat  faiss by hand: IndexFlatIP
faiss_hnsw  faiss by hand: IndexHNSWFlat, M 32, efConstruction 128, efSearch 128 (--long: at a million too)
faiss       the engine of this package, which chooses the structure by size (--long: at a million too)
milvus      the engine of this package on Milvus Lite (--only); pgvector: on the server at --uri (--only)

One query at a time is the median of all queries, the floor's and the engine's rounds being minutes apart; the ratio of
exact to its floor is therefore measured in one process, in turns, and is the last table. --publish also writes the
numbers at 100,000 that `lookalike list engines` shows.
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
from typing import Any

import numpy as np
import torch

from lookalike.search.engines import ENGINES, Engine, EngineLocation
from lookalike.search.engines.measured import FILE

DIM, K, QUERIES = 512, 10, 200
BY_HAND = ("torch", "faiss_flat", "faiss_hnsw")
PLAN = {
    100_000: ("torch", "exact", "faiss_flat", "faiss_hnsw", "faiss"),
    1_000_000: ("torch", "exact", "faiss_flat"),
}
LONG = {**PLAN, 1_000_000: (*PLAN[1_000_000], "faiss_hnsw", "faiss")}
SHORT = {20_000: ("torch", "exact", "faiss_flat", "faiss_hnsw", "faiss")}

Search = Callable[[np.ndarray], np.ndarray]


def draw(count: int, seed: int) -> np.ndarray:
    """Unit vectors around 1,000 centers that do not depend on the seed of the draws."""
    centers = np.random.default_rng(0).standard_normal((1000, DIM), dtype=np.float32)
    draws = np.random.default_rng(seed)
    out = np.empty((count, DIM), np.float32)
    for start in range(0, count, 50_000):
        part = centers[draws.integers(0, 1000, min(50_000, count - start))]
        part = part + draws.standard_normal(part.shape, dtype=np.float32)
        out[start : start + len(part)] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def by_hand(name: str, base: np.ndarray) -> Search:
    """A function from queries to the similarities of their nearest."""
    if name == "torch":
        matrix = torch.from_numpy(base)
        return lambda queries: (torch.from_numpy(queries) @ matrix.T).topk(K, dim=1).values.numpy()
    import faiss

    if name == "faiss_flat":
        index = faiss.IndexFlatIP(DIM)
    else:
        index = faiss.IndexHNSWFlat(DIM, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 128, 128
    index.add(base)
    return lambda queries: index.search(queries, K)[0]


def build_engine(name: str, folder: Path, base: np.ndarray, uri: str | None) -> Engine:
    """An engine that holds all vectors."""
    place = EngineLocation(folder, DIM, f"bench_{len(base)}", uri or str(folder / "milvus.db"))
    engine = ENGINES[name].open(place)
    for start in range(0, len(base), 20_000):
        stop = min(start + 20_000, len(base))
        engine.add(np.arange(start, stop), base[start:stop])
    engine.save()
    return engine


def measure(name: str, count: int, uri: str | None) -> dict[str, Any]:
    """One engine in this process."""
    base, asked = draw(count, 1), draw(QUERIES, 2)
    truth = np.concatenate(
        [np.partition(q @ base.T, -K, axis=1)[:, -K] for q in np.array_split(asked, QUERIES // 20)]
    )
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        began = time.perf_counter()
        if name in BY_HAND:
            search = by_hand(name, base)
        else:
            engine = build_engine(name, folder, base, uri)
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
        row: dict[str, Any] = {
            "engine": name,
            "count": count,
            "build_seconds": round(build, 1),
            "recall_at_10": round(recall, 4),
            "queries_per_second": round(1 / float(np.median(times)), 1),
            "queries_per_second_together": round(QUERIES / together, 1),
            "slowest_ms": round(1000 * max(times), 1),
            "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "disk_mb": round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6),
        }
        if name == "exact":
            row["times_the_floor"] = beside_the_floor(search, by_hand("torch", base), asked)
        return row


def beside_the_floor(ours: Search, floor: Search, asked: np.ndarray) -> dict[int, float]:
    """Queries per call -> time of `ours` by that of `floor`, least of rounds in turns (CPU time with one thread)."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    ratios = {}
    for queries in (1, 8, 32, QUERIES):
        best = {ours: np.inf, floor: np.inf}
        for _ in range(15 if queries < QUERIES else 5):
            for search in best:
                began = clock()
                search(asked[:queries])
                best[search] = min(best[search], clock() - began)
        ratios[queries] = round(float(best[ours] / best[floor]), 3)
    return ratios


def facts() -> dict[str, str]:
    """Command, date, commit and machine."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    )
    threads = f"{torch.get_num_threads()} threads"
    return {
        "command": " ".join(["python -m benchmarks.search", *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "commit": commit.stdout.strip(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {threads}, load average {os.getloadavg()[0]:.1f}",
    }


def publish(rows: list[dict[str, Any]], source: dict[str, str]) -> None:
    """Writes what `lookalike list engines` shows; engines that were not measured keep their numbers."""
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for row in rows:
        if row["count"] == 100_000 and row["engine"] in ENGINES:
            known[row["engine"]] = {
                "recall_at_10": row["recall_at_10"],
                "queries_per_second": row["queries_per_second"],
                **source,
            }
    FILE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Runs each engine in a process of its own, prints a row for each, and writes them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", help="engines, separated by commas, at 100,000")
    parser.add_argument("--uri", help="of pgvector's server")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), options.uri)))
        return
    plan = SHORT if options.short else LONG if options.long else PLAN
    if options.only:
        plan = {min(plan): tuple(options.only.split(","))}
    rows, source = [], facts()
    columns = ("engine", "count", "build_seconds", "recall_at_10", "queries_per_second")
    columns += ("queries_per_second_together", "slowest_ms", "peak_memory_mb", "disk_mb")
    print("  ".join(columns))
    for count, names in plan.items():
        for name in names:
            words = [sys.executable, "-m", "benchmarks.search", "--one", name, str(count)]
            words += ["--uri", options.uri] if options.uri else []
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print("  ".join(str(rows[-1][column]).rjust(len(column)) for column in columns), flush=True)
            if options.json:
                options.json.write_text(
                    json.dumps({**source, "rows": rows}, indent=1) + "\n", encoding="utf-8"
                )
    for row in rows:
        if "times_the_floor" in row:
            print(f"exact by its floor at {row['count']:,}, by queries per call: {row['times_the_floor']}")
    if options.publish:
        publish(rows, source)


if __name__ == "__main__":
    main()
