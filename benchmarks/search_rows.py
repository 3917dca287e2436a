"""Rows of the search benchmark: what each measures, where it came from, and the files and the table that hold them."""

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from lookalike.search.engines import ENGINES
from lookalike.search.engines.faiss import FaissSettings
from lookalike.search.engines.measured import FILE

PUBLISHED_ROWS = 100_000
BY_HAND = ("torch", "faiss_flat", "faiss_hnsw", "faiss_ivfpq")
STRUCTURES = {
    "faiss:hnsw": FaissSettings(hnsw_from=1, lists_from=10**9),
    "faiss:ivfpq": FaissSettings(hnsw_from=1, lists_from=1),
}
NAMES = (*BY_HAND, *STRUCTURES, *ENGINES)
TITLES = {
    "torch": "one product and topk of PyTorch",
    "faiss_flat": "faiss by hand, flat",
    "faiss_hnsw": "faiss by hand, HNSW",
    "faiss_ivfpq": "faiss by hand, IVF-PQ",
    "faiss:hnsw": "`faiss`, HNSW",
    "faiss:ivfpq": "`faiss`, IVF-PQ",
    "milvus": "`milvus` (Lite)",
}


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


def add_row(file: Path, row: dict[str, Any]) -> None:
    """Adds a row to a file of rows, in place of the one of the same engine and number."""
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    kept = [old for old in rows if (old["engine"], old["count"]) != (row["engine"], row["count"])]
    kept.append(row)
    kept.sort(key=lambda each: (each["count"], NAMES.index(each["engine"])))
    file.write_text(json.dumps({"rows": kept}, indent=1) + "\n", encoding="utf-8")


def table(file: Path) -> str:
    """The rows of a file in Markdown, each number of vectors once."""
    lines = [
        "| rows | engine | build | recall at 10 | queries/s, single | together | slowest | times the floor | memory "
        "| disk |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    before = 0
    for row in json.loads(file.read_text(encoding="utf-8"))["rows"]:
        rates = (row["queries_per_second"], row["queries_per_second_together"])
        cells = [
            "" if row["count"] == before else f"{row['count']:,}",
            TITLES.get(row["engine"], f"`{row['engine']}`"),
            f"{row['build_seconds']:,.{0 if row['build_seconds'] >= 10 else 1}f} s"
            if row["build_seconds"]
            else "",
            f"{row['recall_at_10']:.4f}",
            *(f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}" for rate in rates),
            f"{row['slowest_ms']:.0f} ms",
            f"{row['times_the_floor']['1']:.2f}" if "times_the_floor" in row else "",
            f"{row['search_memory_mb']:,} MB" if "search_memory_mb" in row else "",
            f"{row['disk_mb']:,} MB" if row["disk_mb"] else "",
        ]
        before = row["count"]
        lines.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(lines)


def publish(row: dict[str, Any]) -> None:
    """Writes what `lookalike list engines` shows; engines that were not measured keep their numbers."""
    if row["count"] != PUBLISHED_ROWS or row["engine"] not in ENGINES:
        return
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    shown = ("recall_at_10", "queries_per_second", *facts())
    known[row["engine"]] = {key: row[key] for key in shown}
    FILE.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
