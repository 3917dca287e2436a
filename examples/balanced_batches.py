"""Our balanced batches in a plain PyTorch DataLoader and training loop.

    python examples/balanced_batches.py

A loss of pairs needs several samples per class in a batch. `BalancedBatches` gives `per_class` samples of each
of `classes` classes, uses every sample in an epoch, and is a batch sampler like any other.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader
from toy_data import INPUTS, toy_data

from lookalike import LOSSES, BalancedBatches, evaluate

CLASSES, DIM = 10, 8


def main() -> None:
    train, test = toy_data(CLASSES, 20), toy_data(CLASSES, 10, seed=1)  # other classes
    sampler = BalancedBatches(train.tensors[1].numpy(), classes=5, per_class=4, seed=0)
    loader = DataLoader(train, batch_sampler=sampler)
    network, loss = nn.Linear(INPUTS, DIM), LOSSES["multi_similarity"](CLASSES, DIM)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for epoch in range(5):
        sampler.set_epoch(epoch)  # other batches in each epoch, the same for the same seed
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss(network(inputs), labels).backward()
            optimizer.step()
    with torch.no_grad():
        embeddings = network(test.tensors[0])
    print(f"recall@1 on new classes: {evaluate(embeddings, test.tensors[1]).recall_at_1:.3f}")


if __name__ == "__main__":
    main()
