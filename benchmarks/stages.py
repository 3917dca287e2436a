"""Where a backbone's time goes, by stage: `python -m benchmarks.stages tf_efficientnet_lite0 --size 112`.

For each stage: multiply-accumulates, milliseconds per image forward (inference mode) and forward + backward
(training its own parameters and passing the gradient on), and the bytes of one image's activation after it
in half precision. The default cut of partial training is read off this table. The least of several repeats
counts, since other work on the machine only ever adds.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import nn

from lookalike.models import build_embedder
from lookalike.models.batch_norm import freeze_batch_norm


def least_ms(work: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Least milliseconds of `work`, after one call that is not counted."""
    work()
    seconds = []
    for _ in range(repeats):
        began = clock()
        work()
        seconds.append(clock() - began)
    return min(seconds) * 1000


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backbone")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--contiguous", action="store_true", help="not channels last")
    parser.add_argument("--bfloat16", action="store_true", help="under autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile each stage")
    parser.add_argument(
        "--one-core", action="store_true", help="one thread, by its processor time: for a busy machine"
    )
    options = parser.parse_args()
    clock = time.process_time if options.one_core else time.perf_counter
    if options.one_core:
        torch.set_num_threads(1)
    layout = torch.contiguous_format if options.contiguous else torch.channels_last
    embedder = build_embedder(options.backbone, weights="none", size=options.size, embedding_dim=None)
    embedder.train().to(memory_format=layout)
    freeze_batch_norm(embedder, affine_trained=True)
    autocast = torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bfloat16)
    images = torch.randint(0, 256, (options.batch, 3, options.size, options.size), dtype=torch.uint8)
    activation = embedder.normalize_input(images).contiguous(memory_format=layout)
    costs = embedder.stage_costs()
    totals = [0.0, 0.0]
    layout_name = "NCHW" if options.contiguous else "NHWC"
    extras = f"{', bfloat16' * options.bfloat16}{', compiled' * options.compile}"
    print(
        f"{options.backbone} at {options.size}, batch {options.batch}, {torch.get_num_threads()} threads, "
        f"{layout_name}{extras}"
    )
    print("cut stage            Mmac  ms forward  ms for+backward  params k  KB after it (half)")
    for number, ((name, stage), cost) in enumerate(zip(embedder.named_stages or (), costs, strict=True), 1):
        run: nn.Module = torch.compile(stage) if options.compile else stage  # type: ignore[assignment]
        given = activation.detach()

        def forward(run: nn.Module = run, given: torch.Tensor = given) -> torch.Tensor:
            with torch.inference_mode(), autocast:
                out: torch.Tensor = run(given)
                return out

        def both(run: nn.Module = run, given: torch.Tensor = given, first: bool = number == 1) -> None:
            with autocast:
                out = run(given.detach().requires_grad_(not first))
            out.backward(torch.ones_like(out))

        ahead = least_ms(forward, options.repeats, clock) / options.batch
        trained = least_ms(both, options.repeats, clock) / options.batch if cost.parameters else 0.0
        totals[0] += ahead
        totals[1] += trained
        with torch.no_grad(), autocast:
            activation = stage(activation)
        kilobytes = activation[0].numel() * 2 / 1024
        print(
            f"{number:3} {name:14} {cost.macs / 1e6:8.1f} {ahead:11.3f} {trained:16.3f} "
            f"{cost.parameters / 1e3:9.0f} {kilobytes:9.1f}"
        )
    print(f"    {'all':14} {sum(c.macs for c in costs) / 1e6:8.1f} {totals[0]:11.3f} {totals[1]:16.3f}")


if __name__ == "__main__":
    main()
