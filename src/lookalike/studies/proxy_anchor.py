"""Proxy-Anchor: the comparisons, batch size, embedding size, alpha and delta, and accuracy over time."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, DataSettings, LossSettings, TrainSettings
from lookalike.studies import recipes
from lookalike.studies.published import PrintedRow, citation, printed_tables
from lookalike.studies.recipes import dimension
from lookalike.studies.study import DATASETS, Figure, Recipe, Row, Study, recall_keys, with_cited_rows

SOURCE = citation("proxy_anchor")
TABLES = printed_tables("proxy_anchor")
CITED = "cited in the paper; run here with the recipe of that system"
CARS = recipes.proxy_anchor("cars196")

LARGER = Experiment(data=DataSettings(image_size=256, resize=292))
"""Rows with a dagger; the size before the crop is the code's."""


def _comparison_rows(table_name: str, dataset: str, group: str, prefix: str) -> list[Row]:
    """The rows of a comparison that can be run; which of them a table prints differs."""
    table = TABLES[table_name]
    printed = {row.label: row for row in table.rows if row.group == group}
    anchor, similarity = recipes.proxy_anchor(dataset), recipes.multi_similarity(dataset)
    triple = recipes.soft_triple(dataset)
    larger_horde = recipes.horde(dataset)
    known: list[tuple[str, str, Recipe, tuple[Experiment, ...], str]] = [
        ("MS 64", "multi_similarity-64", similarity, (dimension(64),), CITED),
        ("MS 128", "multi_similarity-128", similarity, (dimension(128),), CITED),
        ("MS 512", "multi_similarity-512", similarity, (), CITED),
        ("SoftTriple 64", "soft_triple-64", triple, (dimension(64),), CITED),
        ("SoftTriple 512", "soft_triple-512", triple, (), CITED),
        ("Margin 128", "margin-128", recipes.margin(dataset), (), CITED),
        ("HTL 512", "htl-512", recipes.hierarchical_triplet(dataset), (), CITED),
        ("HTL 128", "htl-128", recipes.hierarchical_triplet(dataset), (dimension(128),), CITED),
        ("RLL-H 512", "ranked_list-512", recipes.ranked_list(dataset), (), CITED),
        ("Proxy-Anchor 64", "proxy_anchor-64", anchor, (dimension(64),), ""),
        ("Proxy-Anchor 128", "proxy_anchor-128", anchor, (dimension(128),), ""),
        ("Proxy-Anchor 512", "proxy_anchor-512", anchor, (), ""),
        ("† Contra+HORDE 512", "horde-512-256px", larger_horde, (), CITED),
        ("† Proxy-Anchor 512", "proxy_anchor-512-256px", anchor, (LARGER,), ""),
    ]
    return [
        Row(name=prefix + name, recipe=recipe, changes=changes, printed=printed[label], note=note)
        for label, name, recipe, changes, note in known
        if label in printed
    ]


def _two_data_sets() -> Study:
    """Table 2."""
    table = TABLES["table2"]
    rows = [
        row
        for dataset in ("cub200", "cars196")
        for row in _comparison_rows("table2", dataset, dataset, f"{dataset}-")
    ]
    return Study(
        id="proxy_anchor/table2",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=with_cited_rows(table, rows),
    )


def _one_data_set(number: int, dataset: str) -> Study:
    """Tables 3 and 4."""
    table = TABLES[f"table{number}"]
    rows = _comparison_rows(f"table{number}", dataset, "", "")
    return Study(
        id=f"proxy_anchor/table{number}",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=with_cited_rows(table, rows),
    )


def _batch_sizes(number: int) -> Study:
    """Tables 5 and 6."""
    table = TABLES[f"table{number}"]
    rows = [
        Row(
            name=f"{printed.group}-{printed.label}",
            recipe=recipes.proxy_anchor(printed.group),
            changes=(Experiment(batch=BatchSettings(size=int(printed.label))),),
            printed=printed,
            x=int(printed.label),
            series=DATASETS[printed.group],
        )
        for printed in table.rows
    ]
    return Study(
        id=f"proxy_anchor/table{number}",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=tuple(rows),
        figure=Figure(x_label="images per batch"),
    )


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
    "contrastive": Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name="contrastive")),
    "triplet_semihard": Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name="triplet_semihard")),
    "n_pairs": Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name="n_pairs")),
    "lifted_structure": Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name="lifted_structure")),
    "multi_similarity": Experiment(batch=PAIRS, train=SAME_RATE, loss=LossSettings(name="multi_similarity")),
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
    rows = [
        Row(name=loss, recipe=CARS, changes=(OTHER_LOSSES[loss], once), printed=table.row(label))
        for label, loss in labels.items()
    ]
    return Study(
        id="proxy_anchor/table1",
        title=table.title,
        source=SOURCE,
        metrics=("seconds_per_epoch",),
        columns=table.columns,
        rows=with_cited_rows(table, rows),
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
    forty = Experiment(train=TrainSettings(epochs=40, patience=40))
    rows = [
        Row(
            name=loss,
            recipe=CARS,
            changes=(OTHER_LOSSES[loss], forty),
            printed=table.row(label),
            series=label,
        )
        for label, loss in labels.items()
    ]
    return Study(
        id="proxy_anchor/figure1",
        title=table.title,
        source=SOURCE,
        metrics=("recall_at_1", "seconds_per_epoch"),
        rows=tuple(rows),
        figure=Figure(kind="training", x_label="seconds of training"),
        note="the published seconds per epoch stand in the figure's legend and are of a Titan Xp; its curve ends "
        "after 40 epochs. Images per class in the batches of pairs, 5, are ours",
    )


def _retrievals() -> Study:
    """Figure 4."""
    rows = [
        Row(name=dataset, recipe=recipes.proxy_anchor(dataset))
        for dataset in ("cub200", "cars196", "sop", "inshop")
    ]
    return Study(
        id="proxy_anchor/figure4",
        title="The four nearest images of some test images",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        figure=Figure(kind="retrievals"),
        note="which queries the paper shows is not stated; here one of each of evenly spaced classes",
    )


def _dimensions() -> Study:
    """Figure 5."""
    printed: dict[tuple[str, int], PrintedRow] = {
        ("proxy_anchor", 64): TABLES["table2"].row("Proxy-Anchor 64", "cars196"),
        ("proxy_anchor", 512): TABLES["table2"].row("Proxy-Anchor 512", "cars196"),
        ("multi_similarity", 64): TABLES["table2"].row("MS 64", "cars196"),
        ("multi_similarity", 512): TABLES["table2"].row("MS 512", "cars196"),
    }
    systems = {"proxy_anchor": CARS, "multi_similarity": recipes.multi_similarity("cars196")}
    rows = [
        Row(
            name=f"{name}-{dim}",
            recipe=recipe,
            changes=(dimension(dim),),
            printed=printed.get((name, dim)),
            x=dim,
            series=recipe.system,
        )
        for name, recipe in systems.items()
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
            name=f"alpha-{alpha}-delta-{delta}",
            recipe=CARS,
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
        resnet = printed.label == "ResNet-50 512"
        rows.append(
            Row(
                name=f"{printed.group}-{'resnet50' if resnet else 'bn_inception'}",
                recipe=recipes.proxy_anchor(printed.group),
                changes=(recipes.resnet50_of_proxy_anchor(printed.group),) if resnet else (),
                printed=printed,
            )
        )
    return Study(
        id="proxy_anchor/readme",
        title=table.title,
        source=SOURCE,
        metrics=tuple(
            dict.fromkeys(key for name in ("sop", "cub200", "inshop") for key in recall_keys(name)[:5])
        ),
        rows=tuple(rows),
        note="not a table of the paper: the same code as its tables, with a batch of 180",
    )


STUDIES = (
    _complexity(),
    _two_data_sets(),
    _one_data_set(3, "sop"),
    _one_data_set(4, "inshop"),
    _batch_sizes(5),
    _batch_sizes(6),
    _time(),
    _retrievals(),
    _dimensions(),
    _alpha_and_delta(),
    _readme(),
)
