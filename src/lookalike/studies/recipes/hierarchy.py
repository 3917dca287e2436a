"""How HPL's systems were trained, by its supplement's two protocols since no code is public, and two rivals."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import (
    BatchSettings,
    CompatSettings,
    LossSettings,
    ModelSettings,
    TrainSettings,
)
from lookalike.studies.changes import combined
from lookalike.studies.recipes.base import BN_INCEPTION, RESNET50, SMALL, network, of_papers
from lookalike.studies.recipes.compared import multi_similarity
from lookalike.studies.study import Recipe

NCA = LossSettings(name="proxy_nca", temperature=1.0, include_positive=False)
"""Proxy-NCA as in the 2017 paper that HPL's supplement refers to for its settings."""


def hpl(dataset: str, loss: LossSettings) -> Recipe:
    """A proxy loss on one level, in HPL's first protocol; the studies put a second level on it."""
    return Recipe(
        system="Proxy-NCA" if loss.name == "proxy_nca" else "Proxy-Anchor",
        dataset=dataset,
        experiment=of_papers(
            RESNET50,
            model=ModelSettings(pooling="average_plus_maximum", embedding_dim=512, start="kaiming"),
            loss=loss,
            batch=BatchSettings(size=128),
            train=TrainSettings(
                epochs=30,
                optimizer="adamw",
                lr=1e-4,
                head_lr=1e-4,
                proxy_lr=1e-2,
                weight_decay=1e-4,
                compat=CompatSettings(random_proxies=False),
            ),
        ),
        source="supplement: AdamW, 1e-4, batches of 128, 30 epochs, pooling, 512 dimensions",
        caveats=(
            "ours: rate of the proxies (100 times the network's, as Proxy-Anchor's), weight decay, crops, batch "
            "norm, start of the projection; the rate stays constant, since the supplement names no schedule",
            "ours: proxies start at class means, so that groups by visual similarity exist from the first "
            "clustering on; from random proxies the groups are chance and stay so",
            "Proxy-NCA is the 2017 paper's (own proxy left out, temperature 1), which the supplement refers to",
        ),
    )


def hpl_folds(dataset: str, loss: LossSettings) -> Recipe:
    """The same in HPL's second protocol: search on four folds of the training classes."""
    first = hpl(dataset, loss)
    return Recipe(
        system=first.system,
        dataset=dataset,
        experiment=combined(
            first.experiment,
            network(BN_INCEPTION),
            Experiment(
                model=ModelSettings(pooling="average", embedding_dim=128),
                train=TrainSettings(
                    epochs=200,
                    patience=10,
                    optimizer="rmsprop",
                    lr=1e-6,
                    head_lr=1e-6,
                    batch_norm="frozen_affine",
                ),
            ),
        ),
        protocol="folds",
        trials=10 if dataset == "sop" else 50,
        source="supplement: RMSprop, 1e-6, batches of 128, until validation stops rising, 50 trials (10 on SOP)",
        caveats=(
            "ours, after the protocol's own paper: BN-Inception, average pooling, 128 dimensions, frozen batch norm",
            "searched: rate of the proxies, number of groups, iterations between clusterings, scale and margin (or "
            "temperature) of each level; the ranges are ours where the protocol's own paper has none",
            "ours: proxies start at class means; Proxy-NCA is the 2017 paper's (own proxy left out)",
            "ours: 10 epochs without a better validation map_at_r end a training; at most 200",
        ),
    )


def divide_and_conquer(dataset: str) -> Recipe:
    """The README's command for Stanford Online Products, with 128 dimensions."""
    return Recipe(
        system="Divide and Conquer",
        dataset=dataset,
        experiment=of_papers(
            RESNET50,
            model=ModelSettings(pooling="average", embedding_dim=128),
            loss=LossSettings(
                name="divide_and_conquer", learners=4 if dataset in SMALL else 8, unit_slices=True
            ),
            batch=BatchSettings(sampler="balanced", classes=20, per_class=4, size=80),
            train=TrainSettings(
                epochs=200,
                optimizer="adam",
                lr=1e-5,
                head_lr=1e-5,
                proxy_lr=1e-5,
                weight_decay=1e-4,
                batch_norm="frozen",
            ),
        ),
        source="released code and its README",
        caveats=(
            "slices train alone for 80 epochs and clusters meet apart for 190, as the README's command says; the "
            "paper is said to describe the last step only",
            "the paper's own results need negatives drawn by distance (loss.base=margin), say its authors; the code's "
            "are the nearest ones",
            "the code compares test embeddings whose slices are of unit length, here the whole vector is",
            "not as in the code: no dropout of 0.01 after pooling, the linear layer starts as one, a batch holds no "
            "image twice, and clusters keep their numbers, which the code confuses in longer cycles",
        ),
    )


WHOLE = LossSettings(name="nearest_margin")
"""The loss of Divide and Conquer's learners, on the whole embedding and all images."""


def hierarchical_triplet(dataset: str) -> Recipe:
    """HTL in the recipe of Multi-Similarity."""
    base = multi_similarity(dataset)
    loss = LossSettings(name="hierarchical_triplet", neighborhood=4)
    return Recipe(
        system="HTL",
        dataset=dataset,
        experiment=combined(
            base.experiment, Experiment(loss=loss, model=ModelSettings(pooling="average", start="random"))
        ),
        source="ours but for the loss: the training settings are Multi-Similarity's",
        caveats=(
            "formulas and beta are from restatements of the paper that agree",
            "ours: 16 levels, a new tree each epoch, merges by average distance, 4 neighborhoods of 4 classes with 5 "
            "images each",
            "the paper starts from a network trained with plain triplets; here training starts with the tree",
        ),
    )
