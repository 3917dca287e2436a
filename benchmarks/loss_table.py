"""Every loss on frozen features of unseen classes: quality and seconds per epoch, several seeds.

    python -m benchmarks.loss_table cars196.zip --seeds 3 --out losses.md

One network embeds all images once; each loss then trains the projection from the same whitened start, its
proxies from class means. For each loss the head's rate is chosen among `RATES` by the validation classes
with seed 0; the epoch is chosen by them in every run. Test classes are measured once per run, for the table.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.jobs import build_context
from lookalike.config.experiment import Experiment
from lookalike.data.read import read
from lookalike.losses import LOSSES
from lookalike.models.whitening import whitened
from lookalike.training.context import RunContext
from lookalike.training.embed_inputs import embed_all
from lookalike.training.evaluate_run import score
from lookalike.training.inputs import build_cache, build_inputs
from lookalike.training.loop import train
from lookalike.training.setup import build_batch_sampler, build_loss, build_network

RATES = (1e-3, 3e-3)
BALANCED = ("batch.sampler=balanced", "batch.classes=18", "batch.per_class=5")
ROWS: dict[str, tuple[str, ...]] = {
    "proxy_anchor": (),
    "proxy_anchor, batch 32": ("batch.size=32",),
    "proxy_anchor, batch 180": ("batch.size=180",),
    "proxy_nca_pp": (),
    "proxy_nca": (),
    "proxy_nca, positive included, T = 1/32": ("loss.include_positive=true", "loss.temperature=0.03125"),
    "soft_triple": (),
    "proxy_gml": (),
    "norm_softmax": (),
    "cos_face": (),
    "arc_face": (),
    "hierarchical": ("loss.coarse=[10]",),
    "multi_similarity": BALANCED,
    "margin": BALANCED,
    "triplet_semihard": BALANCED,
    "triplet": BALANCED,
    "contrastive": BALANCED,
    "n_pairs": BALANCED,
    "lifted_structure": BALANCED,
    "ranked_list": BALANCED,
}


class Bench:
    """The frozen features of one data set, and the start that all losses share."""

    def __init__(self, data: str, epochs: int) -> None:
        self.table, self.epochs = read(data), epochs
        self.context = self._job(["train.mode=frozen"])
        self.trainable = build_network(self.context)
        split = self.context.split
        cache = build_cache(self.context, self.trainable, split.trainval)
        self.inputs, self.held, test = (
            build_inputs(self.context, self.trainable, part, cache)
            for part in (split.train, split.validation, split.test)
        )
        self.test = embed_all(self.context, self.trainable, test, project=False)
        self.pooled = embed_all(self.context, self.trainable, self.inputs, project=False)
        self.start = whitened(self.pooled, self.inputs.labels, self.trainable.embedder.embedding_dim)

    def _job(self, settings: list[str]) -> RunContext:
        settings = [*settings, f"train.epochs={self.epochs}", "train.patience=5"]
        split = Experiment().split(self.table)  # one split, whatever the seed
        return build_context(self.table, settings, Path(tempfile.mkdtemp()), split)

    def run(self, settings: list[str]) -> dict[str, float]:
        """Metrics of the best epoch on validation and test, and seconds per epoch."""
        context, embedder, split = (
            self._job(["train.mode=frozen", *settings]),
            self.trainable.embedder,
            self.context.split,
        )
        embedder.set_projection(*self.start)
        generator = torch.Generator().manual_seed(context.experiment.seed)
        loss = build_loss(
            context.experiment,
            split.train.num_classes,
            embedder.embedding_dim,
            channels=embedder.channels,
            generator=generator,
        )
        if loss.proxy_loss is not None:
            with torch.no_grad():
                embeddings = embedder.project(self.pooled)
            loss.proxy_loss.initialize_proxies_at_class_means(embeddings, self.inputs.labels, generator)

        def measure() -> dict[str, float]:
            matrix = embed_all(context, self.trainable, self.held, project=True).numpy()
            result = score(split.validation, matrix)
            return {key: result[key] for key in ("recall_at_1", "map_at_r", "r_precision")}

        state = train(
            self.trainable,
            loss,
            self.inputs,
            build_batch_sampler(context, self.inputs.labels),
            context.experiment.train,
            fabric=context.fabric,
            seed=context.experiment.seed,
            evaluate=measure,
        )
        with torch.inference_mode():
            result = score(split.test, embedder.project(self.test).numpy())
        seconds = [record["seconds"] for record in state.history[1:]]
        return {
            "validation": state.best_metric,
            "epoch": state.best_epoch,
            "recall_at_1": result["recall_at_1"],
            "map_at_r": result["map_at_r"],
            "seconds": statistics.median(seconds),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    bench = Bench(options.data, options.epochs)
    matrix = (bench.test @ bench.start.weight.T + bench.start.bias).numpy()
    start = score(bench.context.split.test, matrix)
    lines = [
        "| loss | head rate | recall_at_1 | map_at_r | epoch kept | seconds per epoch |",
        "|---|---|---|---|---|---|",
        f"| the whitened start | | {100 * start['recall_at_1']:.1f} | {100 * start['map_at_r']:.2f} | 0 | |",
    ]
    for row in options.rows:
        name = row.split(",")[0]
        assert name in LOSSES
        base = [f"loss.name={name}", *ROWS[row]]
        began = time.monotonic()
        tried = {rate: bench.run([*base, f"train.head_lr={rate}"]) for rate in RATES}
        rate = max(tried, key=lambda r: tried[r]["validation"])
        runs = [tried[rate]]
        runs += [
            bench.run([*base, f"train.head_lr={rate}", f"seed={seed}"]) for seed in range(1, options.seeds)
        ]
        cells = [
            _spread([100 * run[key] for run in runs], digits)
            for key, digits in (("recall_at_1", 1), ("map_at_r", 2))
        ]
        epochs = "/".join(str(int(run["epoch"])) for run in runs)
        seconds = statistics.median(run["seconds"] for run in runs)
        lines.append(f"| {row} | {rate:g} | {cells[0]} | {cells[1]} | {epochs} | {seconds:.2f} |")
        print(lines[-1], f"({time.monotonic() - began:.0f} s)", flush=True)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text("\n".join(lines) + "\n")


def _spread(values: list[float], digits: int) -> str:
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {deviation:.{digits}f}"


if __name__ == "__main__":
    main()
