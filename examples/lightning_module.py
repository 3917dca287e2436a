"""Our loss in a Lightning module.

    pip install pytorch-lightning
    python examples/lightning_module.py

The loss is an attribute of the module, so its proxies are parameters of it: they move to the device, are saved
in checkpoints, and need a learning rate of their own.
"""

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from toy_data import INPUTS, toy_data

from lookalike import ProxyAnchor, evaluate

CLASSES, DIM = 10, 8


class MetricLearner(pl.LightningModule):
    """A network and a proxy loss."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    def training_step(self, batch: tuple[Tensor, Tensor], batch_index: int) -> Tensor:
        inputs, labels = batch
        value: Tensor = self.loss(self.network(inputs), labels)
        self.log("loss", value)
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            [
                {"params": self.network.parameters(), "lr": 1e-3},
                {"params": self.loss.parameters(), "lr": 1e-1},  # proxies: about 100 times that
            ]
        )


def main() -> None:
    train, test = toy_data(CLASSES, 20), toy_data(CLASSES, 10, seed=1)  # other classes
    learner = MetricLearner(nn.Linear(INPUTS, DIM), ProxyAnchor(CLASSES, DIM))
    trainer = pl.Trainer(
        max_epochs=10, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(learner, DataLoader(train, batch_size=40, shuffle=True))
    with torch.no_grad():
        embeddings = learner.network(test.tensors[0])
    print(f"recall@1 on new classes: {evaluate(embeddings, test.tensors[1]).recall_at_1:.3f}")


if __name__ == "__main__":
    main()
