"""Losses side by side: three bare matrix products, our chunked and dense forms, and pytorch-metric-learning.

    python -m benchmarks.losses [--short] [--rounds N] [--threads N] [--device cuda]

Forward and backward of 180 embeddings of dimension 512 against C = 100, 11,318 and 100,000 classes, float32.
For each loss and C one process makes all contenders and alternates between them, round by round; the median
counts. At C = 100, where a step takes a millisecond, each turn is five steps, the first of which is not counted: it
finds another contender's numbers in the caches. Ratios are to the floor of the same process:

floor    three torch.mm: similarities into a ready buffer, both gradients into new tensors, as every loss has
         to hand them over (HPL: three for each level)
bounded  ours of a softmax with no similarities kept between its two passes
peer     pytorch-metric-learning's loss with the same settings, where it has one

Both the wall clock and the CPU seconds of the process are taken: on a machine that others use too, read the
CPU seconds of one thread. Memory is measured in processes of their own: the growth of the peak while one step
runs, less the two gradients that any form has to hand over; on a GPU of its own memory, as torch counts it.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks import peak_bytes, reset_peak

BATCH, DIM = 180, 512
SIZES = (100, 11_318, 100_000)
SHORT_SIZES = (100, 5_000)
ROUNDS = {100: 100, 5_000: 7, 11_318: 7, 100_000: 3}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "proxy_anchor": ("proxy_anchor", {}),
    "proxy_nca_pp": ("proxy_nca_pp", {}),
    "norm_softmax": ("norm_softmax", {}),
    "arc_face": ("arc_face", {}),
    "soft_triple": ("soft_triple", {"centers_per_class": 2}),
    "hierarchical": ("hierarchical", {"coarse": (100,), "update_every": 10**9}),
    "proxy_gml": ("proxy_gml", {"proxies_per_class": 1, "regularizer_weight": 0.0}),
}
HAS_PEER = ("proxy_anchor", "proxy_nca_pp", "norm_softmax", "arc_face", "soft_triple")
TWO_PASSES = ("proxy_nca_pp", "norm_softmax", "arc_face", "soft_triple")
STEPS = {100: 5}
"""Steps of a turn, where more than one; the first of several is not counted."""
Step = Callable[[], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--only", nargs="*", default=list(CASES))
    parser.add_argument("--sizes", nargs="*", type=int)
    parser.add_argument("--worker", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(*options.worker, rounds=options.rounds, device=options.device)))
        return
    sizes = options.sizes or (SHORT_SIZES if options.short else SIZES)
    print(f"{hardware(options.device)}, {options.threads} threads, B {BATCH}, D {DIM}")
    print(
        "| loss | C | floor ms | ours | bounded | dense | peer "
        "| ours CPU | bounded CPU | dense CPU | peer CPU "
        "| ours MB | dense MB | peer MB |"
    )
    print("|---" * 14 + "|")
    for name in options.only:
        for classes in sizes:
            print(row(name, classes, options), flush=True)


def hardware(device: str) -> str:
    """What computes."""
    if device == "cpu":
        return platform.processor() or platform.machine()
    import torch

    return torch.cuda.get_device_name()


def row(name: str, classes: int, options: argparse.Namespace) -> str:
    """One line of the table."""
    times = start("time", name, classes, "all", options)
    memory = {
        form: start("memory", name, classes, form, options)["bytes"] / 2**20
        for form in ("ours", "dense", "peer")
        if form != "peer" or name in HAS_PEER
        if not (form != "ours" and classes * BATCH * 4 * 14 > 8 * 2**30)
    }

    def ratio(form: str, clock: str) -> str:
        return f"{times[form][clock] / times['floor'][clock]:.2f}" if form in times else ""

    cells = [name, f"{classes:,}", f"{times['floor']['wall'] * 1e3:.2f}"]
    cells += [ratio(form, "wall") for form in ("ours", "bounded", "dense", "peer")]
    cells += [ratio(form, "cpu") for form in ("ours", "bounded", "dense", "peer")]
    cells += [f"{memory[form]:.0f}" if form in memory else "" for form in ("ours", "dense", "peer")]
    return "| " + " | ".join(cells) + " |"


def start(what: str, name: str, classes: int, form: str, options: argparse.Namespace) -> dict[str, Any]:
    """Runs a worker process and returns what it measured."""
    command = [sys.executable, "-m", "benchmarks.losses", "--worker", what, name, str(classes), form]
    command += ["--device", options.device]
    if options.rounds:
        command += ["--rounds", str(options.rounds)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def work(what: str, name: str, classes: str, form: str, *, rounds: int | None, device: str) -> dict[str, Any]:
    """In the worker: the times of all contenders, or the memory of one step of one."""
    warnings.simplefilter("ignore")
    if what == "memory":
        return {"bytes": step_memory(name, int(classes), form, device)}
    contenders = make(name, int(classes), ["floor", "ours", "bounded", "dense", "peer"], device)
    spent: dict[str, list[tuple[float, float]]] = {key: [] for key in contenders}
    for step in contenders.values():
        step()
    wait(device)
    steps = STEPS.get(int(classes), 1)
    for _ in range(rounds or ROUNDS.get(int(classes), 5)):
        for key, step in contenders.items():
            for number in range(steps):
                wall, cpu = time.perf_counter(), time.process_time()
                step()
                wait(device)
                if number > 0 or steps == 1:
                    spent[key].append((time.perf_counter() - wall, time.process_time() - cpu))
    return {
        key: {clock: statistics.median(t[at] for t in times) for at, clock in enumerate(("wall", "cpu"))}
        for key, times in spent.items()
    }


def wait(device: str) -> None:
    """Until the device has done what it was given."""
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def make(name: str, classes: int, forms: list[str], device: str = "cpu") -> dict[str, Step]:
    """The contenders, each a function that runs forward and backward once."""
    import torch
    from torch import Tensor

    from lookalike.losses import LOSSES

    torch.manual_seed(0)
    kind, settings = CASES[name]
    embeddings = torch.randn(BATCH, DIM, device=device, requires_grad=True)
    labels = torch.randint(0, classes, (BATCH,), device=device)
    loss = LOSSES[kind](
        classes,
        DIM,
        **{**settings, "coarse": (min(100, classes // 2),)} if kind == "hierarchical" else settings,
    ).to(device)
    parameters = list(loss.parameters())
    if kind == "hierarchical":
        with torch.no_grad():
            loss(embeddings, labels)  # groups its classes once

    settings_of = [vars(module) for module in loss.modules()]

    def of_form(form: str) -> Step:
        def step() -> None:
            for settings in settings_of:
                settings["form"] = form
            embeddings.grad = None
            for parameter in parameters:
                parameter.grad = None
            loss(embeddings, labels).backward()

        return step

    def floor() -> Step:
        x = embeddings.detach()
        levels = [p.detach() for p in parameters]
        weights = [torch.randn(BATCH, len(p), device=device) for p in levels]
        buffers = [torch.empty(BATCH, len(p), device=device) for p in levels]

        def step() -> None:
            for p, w, sims in zip(levels, weights, buffers, strict=True):
                torch.mm(x, p.T, out=sims)
                torch.mm(w, p)
                torch.mm(w.T, x)

        return step

    def bounded() -> Step:
        from lookalike.losses.kernels.chunks import Part

        def step() -> None:
            embeddings.grad = parameters[0].grad = None
            checked = loss.checked(embeddings, labels)
            chunked: Callable[..., Tensor] = loss.chunked
            chunked(embeddings, parameters[0], checked, Part(keep=False)).backward()

        return step

    def peer() -> Step:
        theirs = pml(name, classes).to(device)
        theirs_parameters = list(theirs.parameters())

        def step() -> None:
            embeddings.grad = None
            for parameter in theirs_parameters:
                parameter.grad = None
            theirs(embeddings, labels).backward()

        return step

    makers: dict[str, Callable[[], Step]] = {
        "ours": lambda: of_form("auto"),
        "dense": lambda: of_form("dense"),
        "floor": floor,
    }
    if name in TWO_PASSES:
        makers["bounded"] = bounded
    if name in HAS_PEER:
        makers["peer"] = peer
    return {form: makers[form]() for form in forms if form in makers}


def pml(name: str, classes: int) -> Any:
    """pytorch-metric-learning's loss with the settings of ours."""
    from pytorch_metric_learning import losses

    match name:
        case "proxy_anchor":
            return losses.ProxyAnchorLoss(classes, DIM, margin=0.1, alpha=32)
        case "proxy_nca_pp":
            return losses.ProxyNCALoss(classes, DIM, softmax_scale=9)
        case "norm_softmax":
            return losses.NormalizedSoftmaxLoss(classes, DIM, temperature=0.05)
        case "arc_face":
            return losses.ArcFaceLoss(classes, DIM)
    return losses.SoftTripleLoss(classes, DIM, centers_per_class=2, la=20, gamma=0.1, margin=0.01)


def step_memory(name: str, classes: int, form: str, device: str) -> int:
    """Growth of the peak during one step, less the gradients of embeddings and proxies."""
    import torch

    make(name, 100, [form], device)[form]()  # libraries and their buffers, at a small size
    contenders = make(name, classes, [form], device)
    per_class = CASES[name][1].get("centers_per_class", 1)
    reset, peak = reset_peak, peak_bytes
    if device != "cpu":
        reset, peak = torch.cuda.reset_peak_memory_stats, torch.cuda.max_memory_allocated
    reset()
    before = peak()
    contenders[form]()
    return max(0, peak() - before - 4 * DIM * (BATCH + classes * per_class))


if __name__ == "__main__":
    main()
