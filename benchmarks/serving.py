"""Requests per second of `lookalike serve` and their 95th percentile, beside the rate of the bare model.

    python -m benchmarks.serving [--seconds 8] [--images 300] [--runtime onnx] [--json docs/benchmarks/serving.json]

A server over an index of glyphs, in a process of its own, answers uploads of 224-px JPEGs over sockets: 1, 8 and 32
clients, each with one request at a time. The bare model decodes, prepares and embeds the same bytes in this process,
one image at a time and in batches of 16, without a server or a search. It takes about a minute; clients, server and
model share the machine's cores, so leave it alone meanwhile.
"""

import argparse
import io
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import torch
from PIL import Image

from lookalike.cli.common import encoder_device
from lookalike.data.image_io import open_image
from lookalike.models import build_embedder
from lookalike.models.checkpoint import save_model
from lookalike.search.build import build_index
from lookalike.search.encoder import ImageEncoder

CLIENTS = (1, 8, 32)
SIZE = 224
PATIENCE = 60


def jpeg(seed: int) -> bytes:
    """A 224-px JPEG of colored blocks."""
    blocks = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(blocks).resize((SIZE, SIZE), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def repeat(action: Callable[[int], Any], seconds: float) -> list[float]:
    """Seconds of each call, for so long."""
    times: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        action(len(times))
        times.append(time.perf_counter() - began)
    return times


def bare(folder: Path, contents: list[bytes], seconds: float, runtime: str) -> dict[str, float]:
    """Images per second of decoding, preparing and embedding, without a server."""
    encoder = ImageEncoder.of_index(folder, encoder_device("cpu", runtime))

    def embed(number: int, count: int) -> None:
        chosen = [contents[(number + i) % len(contents)] for i in range(count)]
        encoder.encode([encoder.prepare(open_image("", content=content)) for content in chosen])

    embed(0, 16)
    rates = {}
    for count in (1, 16):
        times = repeat(lambda number, count=count: embed(number, count), seconds)  # type: ignore[misc]
        rates[f"batches_of_{count}"] = round(count * len(times) / sum(times), 1)
    return rates


def load(address: str, clients: int, contents: list[bytes], seconds: float) -> dict[str, float]:
    """Requests per second and the 95th percentile of `clients` at a time."""
    times: list[list[float]] = [[] for _ in range(clients)]
    refused = [0] * clients

    def client(who: int) -> None:
        with httpx.Client(timeout=PATIENCE) as session:

            def ask(number: int) -> None:
                content = contents[(number * clients + who) % len(contents)]
                refused[who] += session.post(f"{address}api/search?k=10", content=content).status_code != 200

            times[who] = repeat(ask, seconds)

    threads = [threading.Thread(target=client, args=(who,)) for who in range(clients)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = time.perf_counter() - began
    every = np.concatenate([np.array(own) for own in times])
    return {
        "clients": clients,
        "requests_per_second": round(len(every) / whole, 1),
        "median_ms": round(1000 * float(np.median(every)), 1),
        "p95_ms": round(1000 * float(np.quantile(every, 0.95)), 1),
        "refused": sum(refused),
    }


def main() -> None:
    """Builds the index, measures the bare model, then the server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--runtime", default="torch")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    contents = [jpeg(seed) for seed in range(64)]
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "photos").mkdir()
        for number in range(options.images):
            (folder / "photos" / f"{number}.jpg").write_bytes(jpeg(number))
        save_model(
            folder / "model",
            build_embedder("tf_efficientnet_lite0", weights="none", size=SIZE, embedding_dim=128),
            class_names=["a"],
        )
        build_index(folder / "model", folder / "photos", folder / "index", device="cpu")
        rates = bare(folder / "index", contents, options.seconds, options.runtime)
        print(f"bare model, images per second: {rates}", flush=True)
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "lookalike", "serve", str(folder / "index"), "--port", "0"),
                *("--device", "cpu", "--runtime", options.runtime),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            httpx.post(f"{address}api/search", content=contents[0], timeout=PATIENCE).raise_for_status()
            rows = []
            for clients in CLIENTS:
                rows.append(load(address, clients, contents, options.seconds))
                print(json.dumps(rows[-1]), flush=True)
        finally:
            server.terminate()
            server.wait()
    if options.json:
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        facts = {
            "command": " ".join(["python -m benchmarks.serving", *sys.argv[1:]]),
            "date": datetime.now(UTC).isoformat(timespec="minutes"),
            "commit": commit.stdout.strip(),
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, load average "
            f"{os.getloadavg()[0]:.1f}",
        }
        options.json.write_text(
            json.dumps({**facts, "bare_images_per_second": rates, "rows": rows}, indent=1) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
