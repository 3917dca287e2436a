"""Our loss in a Hugging Face Trainer.

    pip install transformers accelerate
    python examples/hugging_face_trainer.py

The Trainer calls the model with the fields of a batch and takes `loss` from what it returns. With the proxy
loss inside the model, its proxies are saved with it; the optimizer is ours, for their learning rate.
"""

import tempfile

import torch
from torch import Tensor, nn
from toy_data import INPUTS, toy_data
from transformers import Trainer, TrainingArguments

from lookalike import ProxyAnchor, evaluate

CLASSES, DIM = 10, 8


class ModelWithLoss(nn.Module):
    """A network that returns its embeddings, and the loss where labels are given."""

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.loss = loss

    def forward(self, inputs: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        embeddings = self.network(inputs)
        if labels is None:
            return {"embeddings": embeddings}
        return {"loss": self.loss(embeddings, labels), "embeddings": embeddings}


def main() -> None:
    train, test = toy_data(CLASSES, 20), toy_data(CLASSES, 10, seed=1)  # other classes
    model = ModelWithLoss(nn.Linear(INPUTS, DIM), ProxyAnchor(CLASSES, DIM))
    optimizer = torch.optim.AdamW(
        [
            {"params": model.network.parameters(), "lr": 1e-3},
            {"params": model.loss.parameters(), "lr": 1e-1},  # proxies: about 100 times that
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=10,
            per_device_train_batch_size=40,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        rows = [{"inputs": inputs, "labels": label} for inputs, label in train]
        Trainer(model, arguments, train_dataset=rows, optimizers=(optimizer, None)).train()
    with torch.no_grad():
        embeddings = model(test.tensors[0])["embeddings"]
    print(f"recall@1 on new classes: {evaluate(embeddings, test.tensors[1]).recall_at_1:.3f}")


if __name__ == "__main__":
    main()
