"""ProxyGML: its ablation, its numbers of proxies and of neighbors, its cost, and comparisons with other systems."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, LossSettings, ModelSettings, TrainSettings
from lookalike.studies.published import citation, printed_tables
from lookalike.studies.recipes import compared, four_papers
from lookalike.studies.recipes.base import BN_INCEPTION, dimension, network
from lookalike.studies.recipes.hierarchy import hierarchical_triplet
from lookalike.studies.study import CITED, Figure, Recipe, Row, Study, printed_study

SOURCE = citation("proxy_gml")
TABLES = printed_tables("proxy_gml")
CARS = four_papers.proxy_gml("cars196")
THREE = ("cub200", "cars196", "sop")


def _comparison() -> Study:
    """The paper's main table, from the slides."""
    table = TABLES["comparison"]
    rows = []
    for dataset in THREE:
        gml = four_papers.proxy_gml(dataset)
        systems: list[tuple[str, str, Recipe, tuple[Experiment, ...]]] = [
            ("SoftTriple 512 BN", "soft_triple-512", compared.soft_triple(dataset), ()),
            ("HTL 512 BN", "htl-512", hierarchical_triplet(dataset), ()),
            ("MS 512 BN", "multi_similarity-512", compared.multi_similarity(dataset), ()),
            ("ProxyGML 64 BN", "64", gml, (dimension(64),)),
            ("ProxyGML 384 BN", "384", gml, (dimension(384),)),
            ("ProxyGML 512 BN", "512", gml, ()),
        ]
        for label, name, recipe, changes in systems:
            note, printed = "" if recipe is gml else CITED, table.row(label, dataset)
            rows.append(Row(f"{dataset}-{name}", recipe, changes=changes, printed=printed, note=note))
    scaled = Row(
        "sop-512-scale-20",
        four_papers.proxy_gml("sop"),
        changes=(Experiment(loss=LossSettings(scale=20.0)),),
        note="not in the paper: the scale that a comment in the code has for this data set",
    )
    return printed_study(table, [*rows, scaled], metrics=(*table.columns, "nmi_geometric"))


# ---- the ablation ----

NO_BONUS = Experiment(loss=LossSettings(positive_bonus=0.0))
NO_MASK = Experiment(loss=LossSettings(mask="none"))
NO_REGULARIZER = Experiment(loss=LossSettings(regularizer_weight=0.0))
MASK_OF_CODE = Experiment(loss=LossSettings(mask="nonzero"))
"""Without the bonus an own class without a selected proxy is outside the softmax, as in the authors' code."""


def _ablation() -> Study:
    """S^pos is the bonus, M the mask, L^p the regularizer."""
    table = TABLES["ablation"]
    changes = {
        "none": (NO_BONUS, NO_MASK, NO_REGULARIZER),
        "S^pos": (NO_MASK, NO_REGULARIZER),
        "M": (NO_BONUS, NO_REGULARIZER, MASK_OF_CODE),
        "L^p": (NO_BONUS, NO_MASK),
        "M + L^p": (NO_BONUS, MASK_OF_CODE),
        "S^pos + L^p": (NO_MASK,),
        "S^pos + M": (NO_REGULARIZER,),
        "S^pos + M + L^p": (),
    }
    words = {"S^pos": "bonus", "M": "mask", "L^p": "regularizer", "none": "none"}
    rows = []
    for label, own in changes.items():
        name = "+".join(words[part] for part in label.split(" + "))
        rows.append(Row(name, CARS, changes=own, printed=table.row(label)))
    return printed_study(
        table,
        rows,
        note="bonus: S^pos, own proxies are always selected; mask: M, only classes with a selected proxy are in "
        "the softmax; regularizer: L^p, proxies are classified by each other",
    )


SOME_RATIOS = (0.05, 0.5, 1.0)
RATIOS = {
    1: SOME_RATIOS,
    4: SOME_RATIOS,
    8: SOME_RATIOS,
    12: (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0),
    20: SOME_RATIOS,
}
"""The shares of neighbors for each number of proxies per class."""


def _grid() -> Study:
    """Supplement, Figure 1."""
    table = TABLES["figure1"]
    printed = {row.label: row for row in table.rows}
    rows = [
        Row(
            f"N-{proxies}-r-{ratio:g}",
            CARS,
            changes=(Experiment(loss=LossSettings(proxies_per_class=proxies, neighbor_ratio=ratio)),),
            printed=printed.get(f"N={proxies} r={ratio:g}"),
            x=ratio,
            series=f"N = {proxies}",
        )
        for proxies, ratios in RATIOS.items()
        for ratio in ratios
    ]
    return printed_study(
        table,
        rows,
        figure=Figure(x_label="share of neighbors (r)", log_x=True),
        note="numbers without decimals are read from the curves of the slides; ratios between 0.1 and 1 are ours. "
        "With r = 0.01 only own proxies are selected, and the loss is 0",
    )


def _lambda() -> Study:
    """Supplement, Figure 2."""
    printed = {0.0: TABLES["ablation"].row("S^pos + M"), 0.3: TABLES["ablation"].row("S^pos + M + L^p")}
    rows = [
        Row(
            f"lambda-{weight}",
            CARS,
            changes=(Experiment(loss=LossSettings(regularizer_weight=weight)),),
            printed=printed.get(weight),
            x=weight,
            series="ProxyGML",
        )
        for weight in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
    ]
    return Study(
        id="proxy_gml/figure2",
        title="Weight of the regularizer (lambda), on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        figure=Figure(x_label="weight of the regularizer (lambda)"),
        note="printed numbers are those of the ablation, since the figure's own are in no text",
    )


def _convergence() -> Study:
    """Slide 17: accuracy over training."""
    return Study(
        id="proxy_gml/convergence",
        title="Accuracy over training time, on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=(
            Row("proxy_gml", CARS, series="ProxyGML"),
            Row("soft_triple", compared.soft_triple("cars196"), series="SoftTriple"),
            Row("multi_similarity", compared.multi_similarity("cars196"), series="MS"),
        ),
        figure=Figure(kind="training", x_label="seconds of training"),
        note="after the curves on the slides, whose values are in no text",
    )


def _cost() -> Study:
    """Supplement, Table 1."""
    table, margin = TABLES["table1"], compared.margin("cars196")
    inception = (network(BN_INCEPTION), dimension(512))
    nca = Experiment(loss=LossSettings(name="proxy_nca"))
    code = "the authors ran another project's code; run here with the recipe of the margin loss"
    in_margin: list[tuple[str, str, tuple[Experiment, ...]]] = [
        ("semihard", "Semi-Hard", (*inception, compared.SEMIHARD)),
        ("margin", "Margin", inception),
        ("proxy_nca", "ProxyNCA", (*inception, nca)),
    ]
    return printed_study(
        table,
        [
            *(
                Row(name, margin, changes=changes, printed=table.row(label), note=code)
                for name, label, changes in in_margin
            ),
            Row("multi_similarity", compared.multi_similarity("cars196"), printed=table.row("MS")),
            Row("proxy_gml", CARS, printed=table.row("ProxyGML")),
        ],
        note="published: a Titan Xp; convergence is the time to the selected epoch; memory is the GPU's",
    )


BATCH_OF_32 = Experiment(batch=BatchSettings(size=32))
BATCH_OF_30 = Experiment(batch=BatchSettings(size=30))
PLAIN = (
    Experiment(model=ModelSettings(pooling="average")),
    Experiment(train=TrainSettings(warmup_epochs=0, optimizer="adam")),
)
"""Proxy-Anchor without its three skills: pooling by two ways, warm-up, AdamW."""


def _with_proxy_anchor() -> Study:
    """Supplement, Table 2, and author response."""
    table = TABLES["table2"]
    rows = []
    for dataset in THREE:
        anchor = four_papers.proxy_anchor(dataset)
        systems: dict[str, tuple[str, Recipe, tuple[Experiment, ...]]] = {
            "ProxyGML 32": ("proxy_gml-32", four_papers.proxy_gml(dataset), ()),
            "Proxy-Anchor 32": ("proxy_anchor-32-plain", anchor, (BATCH_OF_32, *PLAIN)),
            "Proxy-Anchor *_32": ("proxy_anchor-32-skills", anchor, (BATCH_OF_32,)),
            "Proxy-Anchor *_30": ("proxy_anchor-30-skills", anchor, (BATCH_OF_30,)),
            "Proxy-Anchor_180": ("proxy_anchor-180-plain", anchor, PLAIN),
        }
        rows += [
            Row(f"{dataset}-{name}", recipe, changes=changes, printed=table.row(label, dataset))
            for label, (name, recipe, changes) in systems.items()
        ]
    return printed_study(
        table,
        rows,
        note='the skills are average + maximum pooling, warm-up and AdamW instead of Adam. "Under our setting" may '
        "also mean ProxyGML's eps of 0.01 and 50 epochs; the plain rows keep Proxy-Anchor's. Batches of 30 with the "
        "skills are Proxy-Anchor's own Tables 5 and 6",
    )


STUDIES = (
    _cost(),
    _with_proxy_anchor(),
    _grid(),
    _lambda(),
    _comparison(),
    _ablation(),
    _convergence(),
)
