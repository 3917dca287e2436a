"""One million classes of dimension 128 on one machine: seconds per step, memory of the process, and learning.

    python -m benchmarks.million [--classes N] [--threads N] [--steps N]

Every line is a process of its own with Proxy-Anchor and a batch of 180: a training step by

torch AdamW                 the whole loss and torch's dense AdamW
sparse                      a twentieth of the classes, sparse gradients, `RowSparseAdamW(second_moment="row")`
sparse, bfloat16 momentum   the same with first_moment="bfloat16"
... beside torch's AdamW    the same with an optimizer of torch's for the embeddings, as a network would have
sparse, no momentum         the same as sparse with betas=(0, 0.999)

then short runs with the three kinds of momentum: NormSoftmax over a million synthetic classes.
Class c has a random center; samples are centers plus noise of 0.7 their length, turned by a fixed random
matrix. Proxies start at random and only they learn, with a twentieth of the classes per step; each class that is
trained comes up twice. They print the share of fresh samples of such classes whose nearest proxy of all is
their own, before and after.

Last, how far rounding takes the proxies: 200 steps over 2,000 classes x 64, a twentieth of them a step, with the
first moment in full and in bfloat16; the distance of the two ends over the distance from start to end.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from typing import Any

DIM, BATCH = 128, 180
FORMS: dict[str, dict[str, Any]] = {
    "torch AdamW": {},
    "sparse": {"second_moment": "row"},
    "sparse, bfloat16 momentum": {"second_moment": "row", "first_moment": "bfloat16"},
    "sparse, bfloat16 momentum, beside torch's AdamW": {"second_moment": "row", "first_moment": "bfloat16"},
    "sparse, no momentum": {"second_moment": "row", "betas": (0.0, 0.999)},
}
RUNS = {
    "run": "sparse",
    "run, bfloat16 momentum": "sparse, bfloat16 momentum",
    "run, no momentum": "sparse, no momentum",
}
ROUNDING = "rounding"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--classes", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--only", nargs="*", default=[*FORMS, *RUNS, ROUNDING])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measured(options.worker, options.classes, options.steps)))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    arguments = ["--classes", str(options.classes), "--steps", str(options.steps)]
    print(f"{options.classes:,} classes x {DIM}, batch {BATCH}, {options.threads} threads")
    print("| form | s a step | CPU s a step | peak GB of the process |\n|---|---|---|---|")
    for form in options.only:
        command = [sys.executable, "-m", "benchmarks.million", "--worker", form, *arguments]
        output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        result: dict[str, Any] = json.loads(output.splitlines()[-1])
        if form != ROUNDING:
            print(
                f"| {form} | {result['wall']:.2f} | {result['cpu']:.2f} | {result['peak']:.2f} |", flush=True
            )
        if form not in FORMS:
            print(json.dumps(result), flush=True)


def measured(worker: str, classes: int, steps: int) -> dict[str, float]:
    """What one line of the table prints."""
    if worker == ROUNDING:
        return rounding()
    return short_run(classes, steps, FORMS[RUNS[worker]]) if worker in RUNS else step_of(worker, classes)


def peak() -> float:
    """Peak memory of this process in GB (10^9 bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def step_of(form: str, classes: int) -> dict[str, float]:
    """Seconds of the fifth step, when moments exist and memory has settled, and the peak of all."""
    import torch

    from lookalike.losses.proxy_anchor import ProxyAnchor
    from lookalike.losses.sampled import Sampled
    from lookalike.optim.row_sparse import RowSparseAdamW

    loss: torch.nn.Module
    if form == "torch AdamW":
        loss = ProxyAnchor(classes, DIM)
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(loss.parameters(), lr=1e-2)
    else:
        loss = Sampled(classes, DIM, base="proxy_anchor", fraction=0.05, sparse_gradients=True)
        optimizer = RowSparseAdamW(loss.parameters(), lr=1e-2, **FORMS[form])
    embeddings = torch.randn(BATCH, DIM, requires_grad=True)
    optimizers = [optimizer]
    if "beside" in form:
        optimizers.append(torch.optim.AdamW([embeddings]))
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss(embeddings, torch.randint(0, classes, (BATCH,))).backward()
        for optimizer in optimizers:
            optimizer.step()
        spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return {**spent, "peak": peak()}


def short_run(classes: int, steps: int, settings: dict[str, Any]) -> dict[str, float]:
    """Trains proxies of all classes on synthetic embeddings, and measures on fresh samples of them."""
    import torch
    from torch import Tensor

    from lookalike.losses.sampled import Sampled
    from lookalike.optim.row_sparse import RowSparseAdamW

    batch = 2048
    generator = torch.Generator().manual_seed(0)
    turn = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator))[0]

    def samples(labels: Tensor, seed: int) -> Tensor:
        """Centers are drawn from the class number, so that no table of them is kept."""
        centers = torch.stack(
            [torch.randn(DIM, generator=torch.Generator().manual_seed(int(label))) for label in labels]
        )
        noise = torch.randn(len(labels), DIM, generator=torch.Generator().manual_seed(10**9 + seed))
        return (centers + 0.7 * noise) @ turn

    base = {"name": "norm_softmax", "settings": {"temperature": 0.05}}
    loss = Sampled(classes, DIM, base=base, fraction=0.05, sparse_gradients=True, generator=generator)
    optimizer = RowSparseAdamW(loss.parameters(), lr=0.05, weight_decay=0.0, **settings)
    seen = torch.randperm(classes, generator=generator)[: batch * steps // 2]
    probe = seen[:1000]

    @torch.no_grad()
    def accuracy() -> float:
        """Share of fresh samples of 1,000 classes whose nearest proxy is their own."""
        x, proxies = samples(probe, -1), loss.proxy_loss.proxies
        best, at = torch.full((len(x),), -2.0), torch.zeros(len(x), dtype=torch.int64)
        for first in range(0, len(proxies), 5_000):
            block = torch.nn.functional.normalize(proxies[first : first + 5_000])
            top, place = (torch.nn.functional.normalize(x) @ block.T).max(dim=1)
            at = torch.where(top > best, place + first, at)
            best = torch.maximum(best, top)
        return float((at == probe).float().mean())

    before = accuracy()
    wall, cpu = time.perf_counter(), time.process_time()
    values = []
    for step in range(steps):
        labels = seen[(step * batch) % len(seen) :][:batch]
        optimizer.zero_grad()
        value = loss(samples(labels, step), labels)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    spent = {"wall": (time.perf_counter() - wall) / steps, "cpu": (time.process_time() - cpu) / steps}
    optimizer.catch_up()
    return {
        **spent,
        "peak": peak(),
        "steps": steps,
        "first_loss": values[0],
        "last_loss": values[-1],
        "accuracy_before": before,
        "accuracy_after": accuracy(),
        "chance": 1 / classes,
    }


def rounding() -> dict[str, float]:
    """Distance between the ends with a full and a bfloat16 moment, over the way from the start."""
    import torch
    from torch import Tensor

    from lookalike.losses.sampled import Sampled
    from lookalike.optim.row_sparse import RowSparseAdamW

    classes, dim = 2000, 64

    def ends(base: str, second_moment: str, first_moment: str) -> tuple[Tensor, Tensor]:
        """The proxies before and after."""
        generator = torch.Generator().manual_seed(0)
        loss = Sampled(classes, dim, base=base, fraction=0.05, sparse_gradients=True, generator=generator)
        optimizer = RowSparseAdamW(
            loss.parameters(), lr=0.01, second_moment=second_moment, first_moment=first_moment
        )
        centers, proxies = torch.randn(classes, dim, generator=generator), loss.base.proxies.detach()
        before = proxies.clone()
        for _ in range(200):
            labels = torch.randint(0, classes, (BATCH,), generator=generator)
            noise = torch.randn(BATCH, dim, generator=generator)
            optimizer.zero_grad()
            loss(centers[labels] + 0.7 * noise, labels).backward()
            optimizer.step()
        optimizer.catch_up()
        return before, proxies

    found = {}
    for base in ("proxy_anchor", "norm_softmax"):
        for second_moment in ("element", "row"):
            before, full = ends(base, second_moment, "full")
            _, rounded = ends(base, second_moment, "bfloat16")
            found[f"{base}, {second_moment}"] = float((rounded - full).norm() / (full - before).norm())
    return found


if __name__ == "__main__":
    main()
