"""Settings that all recipes share: what all the papers do, and their two networks."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import (
    BatchSettings,
    CompatSettings,
    DataSettings,
    LossSettings,
    ModelSettings,
    ScheduleSettings,
    TrainSettings,
)
from lookalike.studies.changes import combined

SMALL = ("cub200", "cars196")
RESNET50 = ModelSettings(backbone="resnet50.tv_in1k", weights="hub")
"""torchvision's first weights, of the error rate that ProxyNCA++'s Table 2 prints; bilinear resizing."""
BN_INCEPTION = ModelSettings(backbone="bn_inception", weights="bn_inception-52deb4733.pth")

PAPERS = Experiment(
    # crops of RandomResizedCrop where nothing else is said [C]
    data=DataSettings(image_size=224, resize=256, crop_scale=(0.08, 1.0)),
    model=ModelSettings(start="random", finish="none", views=1, precision="float32"),
    train=TrainSettings(
        mode="finetune",
        warmup_epochs=0,
        metric="recall_at_1",
        compat=CompatSettings(random_proxies=True),
        batch_norm="train",
        schedule=ScheduleSettings(name="constant"),
        precision="32-true",
    ),
)
"""What papers do where a recipe says nothing else: fine-tune the whole network from a random projection on 224 pixels,
and choose by Recall@1."""


def network(base: ModelSettings) -> Experiment:
    """The change that makes a recipe's backbone another one."""
    return Experiment(model=base)


def of_papers(
    base: ModelSettings,
    *,
    model: ModelSettings,
    loss: LossSettings,
    batch: BatchSettings,
    train: TrainSettings,
    data: DataSettings | None = None,
) -> Experiment:
    """What all the papers do, with a recipe's backbone and its own settings."""
    own = Experiment(data=data or DataSettings(), model=model, loss=loss, batch=batch, train=train)
    return combined(PAPERS, network(base), own)


def dimension(size: int) -> Experiment:
    """The change to embeddings of `size` dimensions."""
    return Experiment(model=ModelSettings(embedding_dim=size))
