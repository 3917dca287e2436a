"""How the systems that the four papers compare themselves with were trained, as far as public sources say."""

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
from lookalike.studies.recipes.base import BN_INCEPTION, RESNET50, SMALL, of_papers
from lookalike.studies.study import Recipe


def soft_triple(dataset: str) -> Recipe:
    """The README's Cars196 command, on any data set."""
    return Recipe(
        system="SoftTriple",
        dataset=dataset,
        experiment=of_papers(
            BN_INCEPTION,
            model=ModelSettings(pooling="average", embedding_dim=512),
            loss=LossSettings(name="soft_triple"),
            batch=BatchSettings(size=32),
            train=TrainSettings(
                epochs=50,
                optimizer="adam",
                lr=1e-4,
                head_lr=1e-4,
                proxy_lr=1e-2,
                weight_decay=1e-4,
                compat=CompatSettings(eps=0.01),
                # on entering the 20th and 40th epoch [C]
                schedule=ScheduleSettings(name="step", gamma=0.1, milestones=(19, 39)),
                batch_norm="frozen",
            ),
        ),
        source="README of the released code",
        caveats=()
        if dataset == "cars196"
        else ("ours: the README gives Cars196 only; the same settings here",),
    )


def norm_softmax(dataset: str) -> Recipe:
    """The released code's settings, with 2048 dimensions and no linear layer."""
    small = dataset in SMALL
    lr = 1e-3 if dataset == "cub200" else 1e-2
    return Recipe(
        system="NormSoftmax",
        dataset=dataset,
        experiment=of_papers(
            RESNET50,
            data=DataSettings(crop_scale=(0.5, 1.0)),
            model=ModelSettings(pooling="average", norm="layer_norm", embedding_dim=2048, start="none"),
            loss=LossSettings(name="norm_softmax", temperature=0.05),
            batch=BatchSettings(
                sampler="balanced", classes=3 if small else 15, per_class=25 if small else 5, size=75
            ),
            train=TrainSettings(
                epochs=31,
                warmup_epochs=1,
                optimizer="sgd",
                momentum=0.9,
                lr=lr,
                head_lr=lr,
                proxy_lr=lr,
                weight_decay=1e-4,
                # the code counts 15 epochs after the one of warm-up
                schedule=ScheduleSettings(name="step", gamma=0.1, milestones=(16,)),
            ),
        ),
        source="released code",
        caveats=(
            "images are squeezed to 256 x 256 and cropped in the code; here resized crops of half and more",
            "with 512 dimensions there is a linear layer, which has a bias here and none in the code",
        ),
    )


NORM_SOFTMAX_512 = Experiment(model=ModelSettings(embedding_dim=512, start="random"))
"""NormSoftmax with a linear layer."""


def multi_similarity(dataset: str) -> Recipe:
    """The released CUB settings; those of the other data sets were never released."""
    return Recipe(
        system="Multi-Similarity",
        dataset=dataset,
        experiment=of_papers(
            BN_INCEPTION,
            data=DataSettings(image_size=227, resize=256, crop_scale=(0.16, 1.0)),
            model=ModelSettings(pooling="maximum", embedding_dim=512, start="kaiming"),  # [C]
            loss=LossSettings(name="multi_similarity", beta=40.0),  # [C]
            batch=BatchSettings(sampler="balanced", classes=16, per_class=5, size=80),
            train=TrainSettings(
                epochs=41,  # 3000 steps of 80 images on CUB
                optimizer="adam",
                lr=3e-5,
                head_lr=3e-5,
                proxy_lr=3e-5,
                weight_decay=5e-4,
                # after 1200 and 2400 steps
                schedule=ScheduleSettings(name="step", gamma=0.1, milestones=(16, 33)),
                batch_norm="frozen",
            ),
        ),
        source="released code",
        caveats=("beta is 50 in the paper and 40 in the code",)
        if dataset == "cub200"
        else (
            "ours: the code gives CUB-200-2011 only; the same settings here",
            "beta is 50 in the paper and 40 in the code",
        ),
    )


def margin(dataset: str) -> Recipe:
    """Margin loss with the settings of a later comparison of losses."""
    return Recipe(
        system="Margin",
        dataset=dataset,
        experiment=of_papers(
            RESNET50,
            model=ModelSettings(pooling="average", embedding_dim=128),
            loss=LossSettings(name="margin"),
            batch=BatchSettings(sampler="balanced", classes=56, per_class=2, size=112),
            train=TrainSettings(
                epochs=150,
                optimizer="adam",
                lr=1e-5,
                head_lr=1e-5,
                proxy_lr=5e-4,
                weight_decay=4e-4,
                batch_norm="frozen_affine",
            ),
        ),
        source="Roth et al., Revisiting Training Strategies (2020)",
        caveats=("not the margin paper's own settings, which no source that was read gives",),
    )


SEMIHARD = Experiment(loss=LossSettings(name="triplet_semihard", margin=0.2))
"""Semi-hard triplets in the recipe of the margin loss."""


def horde(dataset: str) -> Recipe:
    """HORDE around the contrastive loss."""
    return Recipe(
        system="HORDE",
        dataset=dataset,
        experiment=of_papers(
            BN_INCEPTION,
            data=DataSettings(image_size=256, resize=288),
            model=ModelSettings(pooling="average", embedding_dim=512),
            loss=LossSettings(name="horde", base={"name": "cosine_contrastive"}),
            batch=BatchSettings(sampler="balanced", classes=8, per_class=10, size=80),
            train=TrainSettings(
                epochs=55,
                optimizer="adam",  # [C]
                lr=1e-5,
                head_lr=1e-5,
                proxy_lr=1e-5,
                weight_decay=0.0,
                batch_norm="frozen",
            ),
        ),
        source="released code for loss, batches, optimizer and rate",
        caveats=(
            "the code trains 8,000 steps of 80 images, about 109 passes over CUB-200-2011; half of it here",
            "the code resizes by 0.8 to 1.8 and crops 256 pixels; resized crops here",
            "ours: no weight decay, frozen batch norm",
        ),
    )


def ranked_list(dataset: str) -> Recipe:
    """Ranked list loss (RLL-H) in the recipe of Multi-Similarity."""
    base = multi_similarity(dataset)
    return Recipe(
        system="Ranked list",
        dataset=dataset,
        experiment=combined(base.experiment, Experiment(loss=LossSettings(name="ranked_list"))),
        source="ours but for the loss: the training settings are Multi-Similarity's",
    )
