"""Losses and miners of pytorch-metric-learning as losses of ours, and a loss of ours, in one loop.

    python examples/pml_losses.py

`FromPML` gives any of them our checks: labels, shapes and values are refused by name, and embeddings are normalized
and computed in float32.
"""

import torch
from pytorch_metric_learning.losses import CircleLoss, SupConLoss
from pytorch_metric_learning.miners import BatchEasyHardMiner
from torch import nn
from torch.utils.data import DataLoader
from toy_data import INPUTS, toy_data

from lookalike import ProxyAnchor, evaluate
from lookalike.losses import FromPML, MetricLoss

CLASSES, DIM = 10, 8


def train(loss: MetricLoss) -> float:
    """Recall@1 on new classes after a few epochs."""
    torch.manual_seed(0)
    samples, test = toy_data(CLASSES, 20), toy_data(CLASSES, 10, seed=1)
    network = nn.Linear(INPUTS, DIM)
    groups = [{"params": network.parameters(), "lr": 1e-2}]
    if parameters := list(loss.parameters()):
        groups.append({"params": parameters, "lr": 1e-1})
    optimizer = torch.optim.AdamW(groups)
    for _ in range(5):
        for inputs, labels in DataLoader(samples, batch_size=40, shuffle=True):
            optimizer.zero_grad()
            loss(network(inputs), labels).backward()
            optimizer.step()
    with torch.no_grad():
        return float(evaluate(network(test.tensors[0]), test.tensors[1]).recall_at_1)


def main() -> None:
    losses = {
        "SupCon": FromPML(CLASSES, DIM, loss=SupConLoss()),
        "Circle": FromPML(CLASSES, DIM, loss=CircleLoss(), miner=BatchEasyHardMiner()),
        "Proxy-Anchor": ProxyAnchor(CLASSES, DIM),
    }
    for name, loss in losses.items():
        print(f"{name}: recall@1 {train(loss):.3f}")


if __name__ == "__main__":
    main()
