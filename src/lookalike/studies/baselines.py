"""How the systems that the four papers compare themselves with were trained, as far as our sources say.

Tags in comments as in `recipes`.
"""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, LossSettings, ScheduleSettings
from lookalike.studies.recipes import loop, network, pixels, proxy_gml
from lookalike.studies.study import Recipe


def soft_triple(dataset: str, dim: int = 512) -> Recipe:
    """The README's Cars196 command, on any data set."""
    return Recipe(
        "SoftTriple",
        dataset,
        proxy_gml("cars196", dim).experiment.override(
            [
                "loss.name=soft_triple", "train.proxy_lr=1e-2", "train.schedule.milestones=[]",
                "train.schedule.every=20",
            ]
        ),
        "README, which gives Cars196 only; on other data sets the same settings are our choice",
    )  # fmt: skip


def norm_softmax(dataset: str, dim: int = 2048) -> Recipe:
    """The released code's settings."""
    small = dataset in ("cub200", "cars196")
    lr = 1e-3 if dataset == "cub200" else 1e-2
    return Recipe(
        "NormSoftmax",
        dataset,
        Experiment(
            data=pixels(224, 256, (0.5, 1.0)),  # resize to 256 x 256 and a random crop there
            model=network("resnet50", "average", dim, norm="layer_norm"),
            loss=LossSettings.model_validate({"name": "norm_softmax", "temperature": 0.05}),
            batch=BatchSettings(
                sampler="balanced", classes=3 if small else 15, per_class=25 if small else 5, size=75
            ),
            train=loop(
                31,
                warmup_epochs=1,
                optimizer="sgd", momentum=0.9, lr=lr, head_lr=lr, proxy_lr=lr, weight_decay=1e-4,
                schedule=ScheduleSettings(name="step", gamma=0.1, milestones=(15,)),
            ),
        ),
        "released code; not expressed: images are squeezed to 256 x 256, then cropped, not resized crops",
    )  # fmt: skip


def multi_similarity(dataset: str, dim: int = 512) -> Recipe:
    """The released CUB settings; those of the other data sets were never released."""
    return Recipe(
        "Multi-Similarity",
        dataset,
        Experiment(
            seed=1,
            data=pixels(227, 256, (0.16, 1.0)),
            model=network("bn_inception", "average", dim),
            loss=LossSettings.model_validate({"name": "multi_similarity", "beta": 40.0}),  # [C]; paper 50
            batch=BatchSettings(sampler="balanced", classes=16, per_class=5, size=80),
            train=loop(
                41,  # 3000 steps of 80 images on CUB
                optimizer="adam", lr=3e-5, head_lr=3e-5, proxy_lr=3e-5, weight_decay=5e-4,
                # falls after 1200 and 2400 steps
                schedule=ScheduleSettings(name="step", gamma=0.1, milestones=(16, 33)),
                batch_norm="frozen",
            ),
        ),
        "released CUB code; on other data sets the same settings are our choice",
    )  # fmt: skip


def margin(dataset: str) -> Recipe:
    """Margin loss with the settings of a later comparison of losses."""
    return Recipe(
        "Margin",
        dataset,
        Experiment(
            data=pixels(224, 256),
            model=network("resnet50", "average", 128),
            loss=LossSettings(name="margin"),
            batch=BatchSettings(sampler="balanced", classes=56, per_class=2, size=112),
            train=loop(
                150, optimizer="adam", lr=1e-5, head_lr=1e-5, proxy_lr=5e-4, weight_decay=4e-4,
                batch_norm="frozen_affine",
            ),
        ),
        "Roth et al.'s settings, not the margin paper's, which are not at hand",
    )  # fmt: skip


def horde(dataset: str) -> Recipe:
    """HORDE around the contrastive loss."""
    loss = {"name": "horde", "base": {"name": "contrastive", "settings": {"negative_margin": 0.5}}}
    return Recipe(
        "HORDE",
        dataset,
        Experiment(
            data=pixels(256, 288),
            model=network("bn_inception", "average", 512),
            loss=LossSettings.model_validate(loss),
            batch=BatchSettings(sampler="balanced", classes=8, per_class=10, size=80),
            train=loop(
                55,  # 40 x 200 steps of 80 images, about 109 passes over CUB; half of it, our choice
                optimizer="adam", lr=1e-5, head_lr=1e-5, proxy_lr=1e-5, weight_decay=0.0,
                batch_norm="frozen",
            ),
        ),
        "released code for batches, crop and rate; optimizer, decay and batch norm are our choice",
    )  # fmt: skip
