"""How to choose between a trained projection and its whitened finish, measured on training classes alone.

    python -m benchmarks.finish cars196.zip [--losses proxy_anchor soft_triple ...] [--seeds 1 2 3] [--epochs 6]

Each run trains its last stages with 40 % of the training classes held out; test classes are never looked at. Then,
60 times, 15 of the held-out classes choose by each rule, and 15 others measure what was chosen:

never, always   the trained projection, or the finish, whatever the classes say
larger          whichever has the larger map_at_r
one error       the finish, unless its map_at_r is lower by more than one standard error of the paired difference
two errors      the same with a 95 % interval
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.jobs import build_context
from lookalike.__main__ import _keep_freed_memory
from lookalike.data.dataset import LabeledImages
from lookalike.data.read import read
from lookalike.evaluation import RetrievalResult, evaluate, paired_difference
from lookalike.training.choose_views import ONE_STANDARD_ERROR
from lookalike.training.embed_inputs import embed_all
from lookalike.training.inputs import build_cache, build_inputs
from lookalike.training.loop import train
from lookalike.training.projection import init_projection, init_projection_and_loss
from lookalike.training.setup import build_batch_sampler, build_network

CLASSES, DRAWS = 15, 60
Matrix = NDArray[np.float32]


def trained(table: LabeledImages, settings: list[str]) -> tuple[Matrix, Matrix, NDArray[np.int64]]:
    """Embeddings of the held-out images by the trained projection and by the finish, and their labels."""
    with tempfile.TemporaryDirectory() as folder:
        context = build_context(table, ["data.validation_fraction=0.4", *settings], Path(folder))
        trainable = build_network(context)
        cache = build_cache(context, trainable, context.split.trainval)
        inputs, held = (
            build_inputs(context, trainable, part, cache)
            for part in (context.split.train, context.split.validation)
        )
        loss = init_projection_and_loss(
            context,
            trainable,
            inputs,
            embed_all(context, trainable, inputs, project=False),
        )
        train(
            trainable,
            loss,
            inputs,
            build_batch_sampler(context, inputs.labels),
            context.experiment.train,
            fabric=context.fabric,
            seed=context.experiment.seed,
            evaluate=None,
        )
        plain = embed_all(context, trainable, held, project=True).numpy()
        pooled = embed_all(context, trainable, inputs, project=False)
        init_projection(context, trainable.embedder, "whitened", pooled, inputs.labels)
        return (
            plain,
            embed_all(context, trainable, held, project=True).numpy(),
            context.split.validation.labels,
        )


def scored(matrix: Matrix, labels: NDArray[np.int64], classes: NDArray[np.int64]) -> RetrievalResult:
    """The images of some classes among themselves."""
    rows = np.isin(labels, classes)
    return evaluate(matrix[rows], labels[rows], ks=(1,))


def rules(plain: RetrievalResult, finished: RetrievalResult) -> dict[str, bool]:
    """Whether each rule takes the finish."""
    columns = plain.per_query["map_at_r"], finished.per_query["map_at_r"]

    def stands(confidence: float) -> bool:
        gain = paired_difference(
            "map_at_r", *columns, plain.labels, confidence=confidence, resamples=500
        ).difference
        return gain.high >= 0

    return {
        "never": False,
        "always": True,
        "larger": finished.map_at_r > plain.map_at_r,
        "one error": stands(ONE_STANDARD_ERROR),
        "two errors": stands(0.95),
    }


def main() -> None:
    """Prints a line for each run and rule: map_at_r and recall_at_1 of the measuring classes, finishes taken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--losses", nargs="*", default=["proxy_anchor", "soft_triple", "proxy_nca_pp"])
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()
    _keep_freed_memory()
    table = read(options.data)
    print("| loss | seed | rule | map_at_r | recall_at_1 | finish taken |\n|---|---|---|---|---|---|")
    for name in options.losses:
        for seed in options.seeds:
            settings = [
                "train.mode=partial",
                f"train.epochs={options.epochs}",
                f"loss.name={name}",
                f"seed={seed}",
            ]
            plain, finished, labels = trained(table, settings)
            drawing = np.random.default_rng(0)
            found: dict[str, list[tuple[float, float, float]]] = {}
            for _ in range(DRAWS):
                drawn = drawing.permutation(np.unique(labels))
                choosing, measuring = drawn[:CLASSES], drawn[CLASSES : 2 * CLASSES]
                taken = rules(scored(plain, labels, choosing), scored(finished, labels, choosing))
                results = [scored(matrix, labels, measuring) for matrix in (plain, finished)]
                for rule, finish in taken.items():
                    result = results[finish]
                    found.setdefault(rule, []).append((result.map_at_r, result.recall_at_1, float(finish)))
            for rule, values in found.items():
                map_at_r, recall, share = 100 * np.mean(values, axis=0)
                print(
                    f"| {name} | {seed} | {rule} | {map_at_r:.2f} | {recall:.2f} | {share:.0f} % |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
