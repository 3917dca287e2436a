"""How HPL's systems were trained: by its supplement's two protocols, since no code is public."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import (
    BatchSettings,
    CompatSettings,
    DataSettings,
    LossSettings,
    ModelSettings,
    TrainSettings,
)
from lookalike.studies.recipes import BN_INCEPTION, PAPERS, RESNET50, network
from lookalike.studies.study import Recipe, combined

NCA = LossSettings(name="proxy_nca", temperature=1.0, include_positive=False)
"""Proxy-NCA as in the 2017 paper that HPL's supplement refers to for its settings."""


def hpl(dataset: str, loss: LossSettings) -> Recipe:
    """A proxy loss on one level, in HPL's first protocol; the studies put a second level on it."""
    return Recipe(
        system="Proxy-NCA" if loss.name == "proxy_nca" else "Proxy-Anchor",
        dataset=dataset,
        experiment=combined(
            PAPERS,
            network(RESNET50),
            Experiment(
                data=DataSettings(image_size=224, resize=256),
                model=ModelSettings(pooling="average_plus_maximum", embedding_dim=512, start="kaiming"),
                loss=loss,
                batch=BatchSettings(size=128),
                train=TrainSettings(
                    epochs=30,
                    patience=30,
                    optimizer="adamw",
                    lr=1e-4,
                    head_lr=1e-4,
                    proxy_lr=1e-2,
                    weight_decay=1e-4,
                    compat=CompatSettings(random_proxies=False),
                ),
            ),
        ),
        protocol="papers",
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
            "ours: 10 epochs without a better validation map_at_r end a training; at most 200",
        ),
    )
