"""Memory over long runs: the resident size has to be the same after a tenth of the work and at the end.

Each run is a process of its own. After a tenth, everything that is made once has been made.
"""

import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

CLASSES, DIM, BATCH = 200, 16, 32
STEPS, QUERIES, UPDATES = 20_000, 10_000, 1_000
LOSSES_WITH_STATE: dict[str, dict[str, Any]] = {
    "proxy_anchor": {},
    "proxy_gml": {"proxies_per_class": 3},
    "potential_field": {"proxies_per_class": 2},
    "hierarchical": {"update_every": 200},
    "proxy_synthesis": {},
    "margin": {},
    "pml": {"loss_class": "MultiSimilarityLoss", "miner_class": "MultiSimilarityMiner"},
    "sampled": {"base": "norm_softmax", "sparse_gradients": True},
    "sharded": {"base": "norm_softmax"},
}
"""Losses that keep something from step to step, or that other parts of the package update."""


@dataclass(frozen=True)
class Growth:
    """Resident megabytes after a tenth of `steps` and at the end."""

    name: str
    steps: int
    begin: float
    end: float

    @property
    def percent(self) -> float:
        """Growth."""
        return 100 * (self.end / self.begin - 1)


Tick = Callable[[], None]
Work = Callable[[int, Tick], None]


def measure(name: str, work: Work, steps: int) -> Growth:
    """Runs `work` in a fresh process.

    Raises:
        RuntimeError: it fails.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measured, args=(work, steps, theirs))
    process.start()
    theirs.close()
    try:
        begin, end = ours.recv()
    except EOFError as error:
        raise RuntimeError(f"{name}: the process failed") from error
    finally:
        process.join()
    return Growth(name, steps, begin, end)


def _measured(work: Work, steps: int, answer: Connection) -> None:
    torch.set_num_threads(1)
    sizes: list[float] = []
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if done in (steps // 10, steps):
            sizes.append(resident())

    work(steps, tick)
    answer.send((sizes[0], sizes[-1]))


def resident() -> float:
    """Megabytes of this process in memory (Linux)."""
    with open("/proc/self/status", encoding="utf-8") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("VmRSS")) / 1024


def train_steps(name: str, settings: dict[str, Any], steps: int, tick: Tick) -> None:
    """Training steps of a loss and a small network."""
    from lookalike.losses import LOSSES
    from lookalike.losses.sharded import Sharded
    from lookalike.optim.row_sparse import RowSparseAdamW

    kind = Sharded if name == "sharded" else LOSSES[name]
    draws = torch.Generator().manual_seed(0)
    loss = kind(CLASSES, DIM, **settings)
    network = torch.nn.Linear(DIM, DIM)
    optimizers = [torch.optim.AdamW(network.parameters())]
    sparse = bool(settings.get("sparse_gradients"))
    if list(loss.parameters()):
        optimizers.append((RowSparseAdamW if sparse else torch.optim.AdamW)(loss.parameters()))
    for _ in range(steps):
        classes = torch.randint(CLASSES, (BATCH // 4,), generator=draws)
        loss(network(torch.randn(BATCH, DIM, generator=draws)), classes.repeat(4)).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tick()


def serve_queries(queries: int, tick: Tick) -> None:
    """Queries to the served application, each an upload."""
    from starlette.testclient import TestClient

    from lookalike.search.build import build_index
    from lookalike.serve.app import create_app
    from lookalike.serve.settings import ServeSettings
    from lookalike.serve.store import Store

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _model_and_images(folder)
        build_index(folder / "model", folder / "images", folder / "index", device="cpu")
        store = Store.open(folder / "index", "cpu")
        contents = [file.read_bytes() for file in sorted((folder / "images").rglob("*.png"))]
        with TestClient(create_app(store, ServeSettings()), base_url="http://localhost:8000") as client:
            for number in range(queries):
                answer = client.post("/api/search?k=3", content=contents[number % len(contents)])
                answer.raise_for_status()
                tick()
        store.close()


def update_index(updates: int, tick: Tick) -> None:
    """Updates of an index, each with one image replaced; another reader has it open."""
    from lookalike.search import ImageIndex
    from lookalike.search.build import build_index

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _model_and_images(folder)
        build_index(folder / "model", folder / "images", folder / "index", device="cpu")
        with ImageIndex.open(folder / "index") as reader:
            for number in range(updates):
                _paint(folder / "images" / "a" / f"{number % 20}.png", seed=1000 + number)
                build_index(folder / "model", folder / "images", folder / "index", device="cpu")
                reader.refresh()
                tick()


def _model_and_images(folder: Path) -> None:
    from lookalike.models import build_embedder
    from lookalike.models.checkpoint import save_model

    save_model(folder / "model", build_embedder("test_resnet", weights="none", size=32, embedding_dim=8))
    for number in range(60):
        _paint(folder / "images" / "abc"[number % 3] / f"{number // 3}.png", seed=number)


def _paint(file: Path, *, seed: int) -> None:
    import numpy as np
    from PIL import Image

    file.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize((48, 48), Image.Resampling.NEAREST).save(file)


def long_runs() -> dict[str, tuple[Work, int]]:
    """Every long run by name, and its length."""
    runs: dict[str, tuple[Work, int]] = {
        f"training, {name}": (partial(train_steps, name, settings), STEPS)
        for name, settings in LOSSES_WITH_STATE.items()
    }
    runs["served queries"] = serve_queries, QUERIES
    runs["index updates"] = update_index, UPDATES
    return runs
