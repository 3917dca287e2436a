"""ProxyGML: its ablation, its numbers of proxies and of neighbors, and its cost, beside Proxy-Anchor and others."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import BatchSettings, LossSettings, ModelSettings, TrainSettings
from lookalike.studies import recipes
from lookalike.studies.published import citation, printed_tables
from lookalike.studies.recipes import dimension
from lookalike.studies.study import Figure, Recipe, Row, Study, with_cited_rows

SOURCE = citation("proxy_gml")
TABLES = printed_tables("proxy_gml")
CITED = "cited in the paper; run here with the recipe of that system"
CARS = recipes.proxy_gml("cars196")


def _comparison() -> Study:
    """The paper's main table, from the slides."""
    table = TABLES["comparison"]
    rows = []
    for dataset in ("cub200", "cars196", "sop"):
        gml, triple = recipes.proxy_gml(dataset), recipes.soft_triple(dataset)
        systems: list[tuple[str, str, Recipe, tuple[Experiment, ...], str]] = [
            ("SoftTriple 512 BN", "soft_triple-512", triple, (), CITED),
            ("HTL 512 BN", "htl-512", recipes.hierarchical_triplet(dataset), (), CITED),
            ("MS 512 BN", "multi_similarity-512", recipes.multi_similarity(dataset), (), CITED),
            ("ProxyGML 64 BN", "64", gml, (dimension(64),), ""),
            ("ProxyGML 384 BN", "384", gml, (dimension(384),), ""),
            ("ProxyGML 512 BN", "512", gml, (), ""),
        ]
        rows += [
            Row(
                name=f"{dataset}-{name}",
                recipe=recipe,
                changes=changes,
                printed=table.row(label, dataset),
                note=note,
            )
            for label, name, recipe, changes, note in systems
        ]
    scaled = Row(
        name="sop-512-scale-20",
        recipe=recipes.proxy_gml("sop"),
        changes=(Experiment(loss=LossSettings(scale=20.0)),),
        note="not in the paper: the scale that a comment in the code has for this data set",
    )
    return Study(
        id="proxy_gml/comparison",
        title=table.title,
        source=SOURCE,
        metrics=(*table.columns, "nmi_geometric"),
        rows=with_cited_rows(table, [*rows, scaled]),
    )


# ---- the ablation ----

NO_BONUS = Experiment(loss=LossSettings(positive_bonus=0.0))
NO_MASK = Experiment(loss=LossSettings(mask="none"))
NO_REGULARIZER = Experiment(loss=LossSettings(regularizer_weight=0.0))
MASK_OF_CODE = Experiment(loss=LossSettings(mask="nonzero"))
"""Without the bonus an own class without a selected proxy is outside the softmax, as in the authors' code."""


def _ablation() -> Study:
    """S^pos is the bonus, M the mask, L^p the regularizer."""
    table = TABLES["ablation"]
    rows = {
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
    return Study(
        id="proxy_gml/ablation",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=tuple(
            Row(
                name="+".join(words[part] for part in label.split(" + ")),
                recipe=CARS,
                changes=changes,
                printed=table.row(label),
            )
            for label, changes in rows.items()
        ),
        note="bonus: S^pos, own proxies are always selected; mask: M, only classes with a selected proxy are in "
        "the softmax; regularizer: L^p, proxies are classified by each other",
    )


ALL_RATIOS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
RATIOS = {1: (0.05, 0.5, 1.0), 4: (0.05, 0.5, 1.0), 8: (0.05, 0.5, 1.0), 12: ALL_RATIOS, 20: (0.05, 0.5, 1.0)}


def _grid() -> Study:
    """Supplement, Figure 1."""
    table = TABLES["figure1"]
    printed = {row.label: row for row in table.rows}
    rows = [
        Row(
            name=f"N-{proxies}-r-{ratio:g}",
            recipe=CARS,
            changes=(Experiment(loss=LossSettings(proxies_per_class=proxies, neighbor_ratio=ratio)),),
            printed=printed.get(f"N={proxies} r={ratio:g}"),
            x=ratio,
            series=f"N = {proxies}",
        )
        for proxies, ratios in RATIOS.items()
        for ratio in ratios
    ]
    return Study(
        id="proxy_gml/figure1",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=tuple(rows),
        figure=Figure(x_label="share of neighbors (r)", log_x=True),
        note="numbers without decimals are read from the curves of the slides; ratios between 0.1 and 1 are ours. "
        "With r = 0.01 only own proxies are selected, and the loss is 0",
    )


def _lambda() -> Study:
    """Supplement, Figure 2."""
    printed = {0.0: TABLES["ablation"].row("S^pos + M"), 0.3: TABLES["ablation"].row("S^pos + M + L^p")}
    return Study(
        id="proxy_gml/figure2",
        title="Weight of the regularizer (lambda), on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(
            Row(
                name=f"lambda-{weight}",
                recipe=CARS,
                changes=(Experiment(loss=LossSettings(regularizer_weight=weight)),),
                printed=printed.get(weight),
                x=weight,
                series="ProxyGML",
            )
            for weight in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
        ),
        figure=Figure(x_label="weight of the regularizer (lambda)"),
        note="printed numbers are those of the ablation, since the figure's own are in no text",
    )


def _convergence() -> Study:
    """Slide 17: accuracy over training."""
    triple, similarity = recipes.soft_triple("cars196"), recipes.multi_similarity("cars196")
    return Study(
        id="proxy_gml/convergence",
        title="Accuracy over training time, on Cars196",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=(
            Row(name="proxy_gml", recipe=CARS, series="ProxyGML"),
            Row(name="soft_triple", recipe=triple, series="SoftTriple"),
            Row(name="multi_similarity", recipe=similarity, series="MS"),
        ),
        figure=Figure(kind="training", x_label="seconds of training"),
        note="after the curves on the slides, whose values are in no text",
    )


def _cost() -> Study:
    """Supplement, Table 1."""
    table = TABLES["table1"]
    inception = (recipes.network(recipes.BN_INCEPTION), dimension(512))
    margin, nca = recipes.margin("cars196"), Experiment(loss=LossSettings(name="proxy_nca"))
    similarity = recipes.multi_similarity("cars196")
    code = "the authors ran another project's code; run here with the recipe of the margin loss"
    return Study(
        id="proxy_gml/table1",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=with_cited_rows(
            table,
            [
                Row(
                    name="semihard",
                    recipe=margin,
                    changes=(*inception, recipes.SEMIHARD),
                    printed=table.row("Semi-Hard"),
                    note=code,
                ),
                Row(name="margin", recipe=margin, changes=inception, printed=table.row("Margin"), note=code),
                Row(
                    name="proxy_nca",
                    recipe=margin,
                    changes=(*inception, nca),
                    printed=table.row("ProxyNCA"),
                    note=code,
                ),
                Row(name="multi_similarity", recipe=similarity, printed=table.row("MS")),
                Row(name="proxy_gml", recipe=CARS, printed=table.row("ProxyGML")),
            ],
        ),
        note="published: a Titan Xp; convergence is the time to the selected epoch; memory is the GPU's",
    )


AS_PROXY_GML = (
    Experiment(batch=BatchSettings(size=32)),
    Experiment(model=ModelSettings(pooling="average")),
    Experiment(train=TrainSettings(warmup_epochs=0, optimizer="adam")),
)
"""Proxy-Anchor with a batch of 32 and without its three skills: pooling by two ways, warm-up, AdamW."""


def _beside_proxy_anchor() -> Study:
    """Supplement, Table 2, and author response."""
    table = TABLES["table2"]
    rows = []
    for dataset in ("cub200", "cars196", "sop"):
        anchor = recipes.proxy_anchor(dataset)
        small, *plain = AS_PROXY_GML
        of_30 = Experiment(batch=BatchSettings(size=30))
        systems = {
            "ProxyGML 32": ("proxy_gml-32", recipes.proxy_gml(dataset), ()),
            "Proxy-Anchor 32": ("proxy_anchor-32-plain", anchor, AS_PROXY_GML),
            "Proxy-Anchor *_32": ("proxy_anchor-32-skills", anchor, (small,)),
            "Proxy-Anchor *_30": ("proxy_anchor-30-skills", anchor, (of_30,)),
            "Proxy-Anchor_180": ("proxy_anchor-180-plain", anchor, tuple(plain)),
        }
        rows += [
            Row(name=f"{dataset}-{name}", recipe=recipe, changes=changes, printed=table.row(label, dataset))
            for label, (name, recipe, changes) in systems.items()
        ]
    return Study(
        id="proxy_gml/table2",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=with_cited_rows(table, rows),
        note='the skills are average + maximum pooling, warm-up and AdamW instead of Adam. "Under our setting" may '
        "also mean ProxyGML's eps of 0.01 and 50 epochs; the plain rows keep Proxy-Anchor's. Batches of 30 with the "
        "skills are Proxy-Anchor's own Tables 5 and 6",
    )


STUDIES = (
    _cost(),
    _beside_proxy_anchor(),
    _grid(),
    _lambda(),
    _comparison(),
    _ablation(),
    _convergence(),
)
