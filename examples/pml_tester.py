"""Our evaluation in pytorch-metric-learning's tester.

    python examples/pml_tester.py

The tester embeds a dataset and hands embeddings and labels to an accuracy calculator; this one gives them to
`lookalike.evaluate`, which is exact, counts ties, and leaves queries without a match out of the means.
"""

import torch
from pytorch_metric_learning.testers import GlobalEmbeddingSpaceTester
from torch import Tensor, nn
from toy_data import INPUTS, toy_data

from lookalike import evaluate

METRICS = ("recall_at_1", "r_precision", "map_at_r")


class LookalikeAccuracy:
    """The part of `AccuracyCalculator` that testers call."""

    def get_accuracy(
        self,
        query: Tensor,
        query_labels: Tensor,
        reference: Tensor,
        reference_labels: Tensor,
        ref_includes_query: bool,
    ) -> dict[str, float]:
        if ref_includes_query:  # the same rows, each of which must not find itself
            result = evaluate(query, query_labels)
        else:
            result = evaluate(
                query, query_labels, gallery_embeddings=reference, gallery_labels=reference_labels
            )
        return {name: getattr(result, name) for name in METRICS}

    def get_curr_metrics(self) -> list[str]:
        return list(METRICS)

    def description(self) -> str:
        return ""


def main() -> None:
    tester = GlobalEmbeddingSpaceTester(
        accuracy_calculator=LookalikeAccuracy(), dataloader_num_workers=0, data_device=torch.device("cpu")
    )
    tester.test({"test": toy_data(10, 10)}, 0, nn.Linear(INPUTS, 8))
    for name, value in tester.all_accuracies["test"].items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
