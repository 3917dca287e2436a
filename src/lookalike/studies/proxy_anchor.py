"""Proxy-Anchor: the comparisons, batch size, embedding size, alpha and delta, and accuracy over time."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, DataSettings, LossSettings, TrainSettings
from lookalike.studies.published import citation, printed_tables
from lookalike.studies.recipes import compared, four_papers
from lookalike.studies.recipes.base import dimension
from lookalike.studies.recipes.hierarchy import hierarchical_triplet
from lookalike.studies.study import (
    CITED,
    DATASETS,
    RETRIEVAL_QUERIES,
    Figure,
    Recipe,
    Row,
    Study,
    printed_study,
    recall_keys,
)

SOURCE = citation("proxy_anchor")
TABLES = printed_tables("proxy_anchor")
CARS = four_papers.proxy_anchor("cars196")

LARGER = Experiment(data=DataSettings(image_size=256, resize=292))
"""Rows with a dagger; the size before the crop is the code's."""


def _comparison(number: int, dataset: str, group: str = "", prefix: str = "") -> list[Row]:
    """The rows of a comparison that can be run; which of them a table prints differs."""
    printed = {row.label: row for row in TABLES[f"table{number}"].rows if row.group == group}
    anchor, similarity = four_papers.proxy_anchor(dataset), compared.multi_similarity(dataset)
    triple, htl = compared.soft_triple(dataset), hierarchical_triplet(dataset)
    known: list[tuple[str, str, Recipe, tuple[Experiment, ...]]] = [
        ("MS 64", "multi_similarity-64", similarity, (dimension(64),)),
        ("MS 128", "multi_similarity-128", similarity, (dimension(128),)),
        ("MS 512", "multi_similarity-512", similarity, ()),
        ("SoftTriple 64", "soft_triple-64", triple, (dimension(64),)),
        ("SoftTriple 512", "soft_triple-512", triple, ()),
        ("Margin 128", "margin-128", compared.margin(dataset), ()),
        ("HTL 512", "htl-512", htl, ()),
        ("HTL 128", "htl-128", htl, (dimension(128),)),
        ("RLL-H 512", "ranked_list-512", compared.ranked_list(dataset), ()),
        ("Proxy-Anchor 64", "proxy_anchor-64", anchor, (dimension(64),)),
        ("Proxy-Anchor 128", "proxy_anchor-128", anchor, (dimension(128),)),
        ("Proxy-Anchor 512", "proxy_anchor-512", anchor, ()),
        ("† Contra+HORDE 512", "horde-512-256px", compared.horde(dataset), ()),
        ("† Proxy-Anchor 512", "proxy_anchor-512-256px", anchor, (LARGER,)),
    ]
    return [
        Row(
            prefix + name,
            recipe,
            changes=changes,
            printed=printed[label],
            note="" if recipe is anchor else CITED,
        )
        for label, name, recipe, changes in known
        if label in printed
    ]


def _batch_sizes(number: int) -> Study:
    """Tables 5 and 6."""
    table = TABLES[f"table{number}"]
    rows = [
        Row(
            f"{printed.group}-{printed.label}",
            four_papers.proxy_anchor(printed.group),
            changes=(Experiment(batch=BatchSettings(size=int(printed.label))),),
            printed=printed,
            x=int(printed.label),
            series=DATASETS[printed.group],
        )
        for printed in table.rows
    ]
    return printed_study(table, rows, figure=Figure(x_label="images per batch"))


# ---- cost, and accuracy over time: other losses in Proxy-Anchor's training ----

SAME_RATE = TrainSettings(proxy_lr=1e-4)
"""The authors trained the losses' own parameters at the base rate [C]."""
PAIRS = BatchSettings(sampler="balanced", classes=30, per_class=5)
OF_150 = BatchSettings(size=150)
NCA_OF_PROXY_ANCHOR = LossSettings(name="proxy_nca", include_positive=True, temperature=1 / 32)
"""What the released code runs as Proxy-NCA: a softmax over all proxies, scale 64 on cosines."""

OTHER_LOSSES = {
    "proxy_anchor": Experiment(batch=OF_150),
    "proxy_nca": Experiment(batch=OF_150, train=SAME_RATE, loss=NCA_OF_PROXY_ANCHOR),
    "soft_triple": Experiment(batch=OF_150, train=SAME_RATE, loss=LossSettings(name="soft_triple")),
} | {
    name: Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name=name))
    for name in ("contrastive", "triplet_semihard", "n_pairs", "lifted_structure", "multi_similarity")
}


def _complexity() -> Study:
    """Table 1."""
    table = TABLES["table1"]
    labels = {
        "Proxy-Anchor": "proxy_anchor",
        "Proxy-NCA": "proxy_nca",
        "SoftTriple": "soft_triple",
        "Contrastive": "contrastive",
        "Triplet (Semi-Hard)": "triplet_semihard",
        "N-pair": "n_pairs",
        "Lifted Structure": "lifted_structure",
    }
    once = Experiment(train=TrainSettings(epochs=1, warmup_epochs=0))
    return printed_study(
        table,
        [
            Row(loss, CARS, changes=(OTHER_LOSSES[loss], once), printed=table.row(label))
            for label, loss in labels.items()
        ],
        metrics=("seconds_per_epoch",),
        columns=table.columns,
        note="the paper prints orders of growth; measured is a whole epoch on Cars196 in batches of 150, in which "
        "the network's own arithmetic dominates",
    )


def _time() -> Study:
    """Figure 1."""
    table = TABLES["figure1"]
    labels = {
        "Proxy-Anchor": "proxy_anchor",
        "MS": "multi_similarity",
        "Proxy-NCA": "proxy_nca",
        "Semi-Hard Triplet": "triplet_semihard",
        "N-Pair": "n_pairs",
    }
    forty = Experiment(train=TrainSettings(epochs=40))
    return printed_study(
        table,
        [
            Row(loss, CARS, changes=(OTHER_LOSSES[loss], forty), printed=table.row(label), series=label)
            for label, loss in labels.items()
        ],
        metrics=("recall_at_1", "seconds_per_epoch"),
        figure=Figure(kind="training", x_label="seconds of training"),
        note="the published seconds per epoch stand in the figure's legend and are of a Titan Xp; its curve ends "
        "after 40 epochs. Images per class in the batches of pairs, 5, are ours",
    )


def _retrievals() -> Study:
    """Figure 4."""
    datasets = ("cub200", "cars196", "sop", "inshop")
    return Study(
        id="proxy_anchor/figure4",
        title="The four nearest images of some test images",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(Row(dataset, four_papers.proxy_anchor(dataset)) for dataset in datasets),
        figure=Figure(kind="retrievals"),
        note=RETRIEVAL_QUERIES,
    )


def _dimensions() -> Study:
    """Figure 5."""
    table = TABLES["table2"]
    systems = {"Proxy-Anchor": CARS, "MS": compared.multi_similarity("cars196")}
    rows = [
        Row(
            f"{recipe.experiment.loss.name}-{dim}",
            recipe,
            changes=(dimension(dim),),
            printed=table.row(f"{label} {dim}", "cars196") if dim in (64, 512) else None,
            x=dim,
            series=recipe.system,
        )
        for label, recipe in systems.items()
        for dim in (32, 64, 128, 256, 512, 1024)
    ]
    return Study(
        id="proxy_anchor/figure5",
        title="Size of the embedding, on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        figure=Figure(x_label="dimension of the embedding", log_x=True),
        note="printed numbers are those of table2, since the curves' own are in no text; MS is not run at 32 there",
    )


def _alpha_and_delta() -> Study:
    """Figure 6."""
    default = TABLES["table2"].row("Proxy-Anchor 512", "cars196")
    rows = [
        Row(
            f"alpha-{alpha}-delta-{delta}",
            CARS,
            changes=(Experiment(loss=LossSettings(scale=float(alpha), margin=delta)),),
            printed=default if (alpha, delta) == (32, 0.1) else None,
            x=delta,
            series=f"alpha = {alpha}",
        )
        for alpha in (4, 8, 16, 32, 64)
        for delta in (0.0, 0.1, 0.2, 0.3, 0.4)
    ]
    return Study(
        id="proxy_anchor/figure6",
        title="Alpha (scale) and delta (margin), on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        figure=Figure(x_label="delta (margin)"),
        note="the printed number is table2's, since the figure's own are in no text",
    )


def _readme() -> Study:
    """Results of the released code."""
    table = TABLES["readme"]
    rows = []
    for printed in table.rows:
        group, resnet = printed.group, printed.label == "ResNet-50 512"
        changes = (four_papers.resnet50_of_proxy_anchor(group),) if resnet else ()
        name = f"{group}-{'resnet50' if resnet else 'bn_inception'}"
        rows.append(Row(name, four_papers.proxy_anchor(group), changes=changes, printed=printed))
    recalls = (key for dataset in ("sop", "cub200", "inshop") for key in recall_keys(dataset)[:5])
    return printed_study(
        table,
        rows,
        metrics=tuple(dict.fromkeys(recalls)),
        note="not a table of the paper: the same code as its tables, with a batch of 180",
    )


STUDIES = (
    _complexity(),
    printed_study(
        TABLES["table2"],
        [row for name in ("cub200", "cars196") for row in _comparison(2, name, name, f"{name}-")],
    ),
    printed_study(TABLES["table3"], _comparison(3, "sop")),
    printed_study(TABLES["table4"], _comparison(4, "inshop")),
    _batch_sizes(5),
    _batch_sizes(6),
    _time(),
    _retrievals(),
    _dimensions(),
    _alpha_and_delta(),
    _readme(),
)
