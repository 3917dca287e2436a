"""ProxyNCA++: what six enhancements of Proxy-NCA are worth, and how it compares."""

import re
from dataclasses import replace

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings, ModelSettings, TrainSettings
from lookalike.studies import recipes
from lookalike.studies.published import PrintedRow, citation, printed_tables
from lookalike.studies.recipes import dimension
from lookalike.studies.study import Figure, Recipe, Row, Study, recall_keys, with_cited_rows

SOURCE = citation("proxynca_pp")
TABLES = printed_tables("proxynca_pp")
CITED = "cited in the paper; run here with the recipe of that system"
RERUN = "the authors' rerun: no enhancement, one learning rate for everything (section 3.6)"

CUB = recipes.proxynca_pp("cub200")
DATA_OF_TABLE = {3: "cub200", 4: "cars196", 5: "sop", 6: "inshop"}


def _without(dataset: str, *enhancements: str) -> tuple[Experiment, ...]:
    lr = recipes.proxynca_pp(dataset).experiment.train.lr
    assert lr is not None
    return recipes.without(*enhancements, lr=lr)


def _comparison(number: int) -> Study:
    """Tables 3 to 6, of one data set each."""
    dataset, table = DATA_OF_TABLE[number], TABLES[f"table{number}"]

    def row(label: str, name: str, recipe: Recipe, *changes: Experiment, note: str = "") -> Row:
        return Row(name=name, recipe=recipe, changes=changes, printed=table.row(label), note=note)

    own, rerun = recipes.proxynca_pp(dataset), _without(dataset, *recipes.ENHANCEMENTS)
    softmax, smaller = recipes.norm_softmax(dataset), recipes.NORM_SOFTMAX_512
    slower = _without(dataset, "max", "fast")
    similarity = recipes.multi_similarity(dataset)
    rows = [
        row("MS I3 512", "multi_similarity-512", similarity, note=CITED),
        row("HORDE I3 512", "horde-512", recipes.horde(dataset), note=CITED),
        row("NormSoftMax R50 512", "norm_softmax-512", softmax, smaller, note=CITED),
        row("NormSoftMax R50 2048", "norm_softmax-2048", softmax, note=CITED),
        row("ProxyNCA R50 2048", "proxynca-2048", own, *rerun, note=RERUN),
        row("ProxyNCA++ R50 512", "proxynca_pp-512", own, dimension(512)),
        row("ProxyNCA++ R50 1024", "proxynca_pp-1024", own, dimension(1024)),
        row("ProxyNCA++ (-max, -fast) R50 2048", "proxynca_pp-2048-max-fast", own, *slower),
        row("ProxyNCA++ R50 2048", "proxynca_pp-2048", own),
    ]
    if dataset != "inshop":
        rows.append(row("Margin R50 128", "margin-128", recipes.margin(dataset), note=CITED))
    return Study(
        id=f"proxynca_pp/table{number}",
        title=table.title,
        source=SOURCE,
        metrics=table.columns if "nmi" not in table.columns else (*table.columns, "nmi_geometric"),
        rows=with_cited_rows(table, rows),
        note="HORDE and MS are printed as I3; they run here on BN-Inception, as in their own code",
    )


def _ablation() -> Study:
    """Table 7: one enhancement taken out."""
    table = TABLES["table7"]
    rows = [
        Row(
            name=label if label.startswith("-") else "full",
            recipe=CUB,
            changes=_without("cub200", *label.split("-")[1:]) if label.startswith("-") else (),
            printed=table.row(label),
        )
        for label in (printed.label for printed in table.rows)
    ]
    return Study(
        id="proxynca_pp/table7",
        title=table.title,
        source=SOURCE,
        metrics=(*table.columns, "nmi_geometric"),
        rows=tuple(rows),
        note="scale: temperature 1/9 instead of 1; max: maximum instead of average pooling; norm: layer norm; "
        "cbs: class-balanced batches; fast: fast proxies; prob: the own proxy in the denominator",
    )


COLUMN_ADDS = {"with prob": ("prob",), "with scale": ("scale",), "GMP": ("max",)}


def _added(number: int) -> Study:
    """Tables 8 to 10: enhancements of the row and of the column put on ProxyNCA."""
    table = TABLES[f"table{number}"]

    def row(printed: PrintedRow) -> Row:
        added = re.findall(r"\+(\w+)", printed.label)
        on = {*added, *COLUMN_ADDS.get(printed.group, ())}
        words = ["".join(f"+{name}" for name in added), printed.group.replace(" ", "-")]
        off = [name for name in recipes.ENHANCEMENTS if name not in on]
        changes = _without("cub200", *off)
        return Row(name="-".join(filter(None, words)), recipe=CUB, changes=changes, printed=printed)

    return Study(
        id=f"proxynca_pp/table{number}",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=tuple(map(row, table.rows)),
        note="the names of the enhancements are explained with table7; 32 experiments fill tables 7 to 10",
    )


UNTRAINED = Experiment(
    model=ModelSettings(norm="none", start="none"), train=TrainSettings(epochs=0, warmup_epochs=0)
)


def _pooling() -> Study:
    """Table 11: pooling under other methods."""
    table = TABLES["table11"]
    margin, similarity = recipes.margin("cub200"), recipes.multi_similarity("cub200")
    on_resnet = recipes.network(recipes.RESNET50)
    methods: dict[str, tuple[str, Recipe, tuple[Experiment, ...]]] = {
        "untrained": ("Without Training {} R50 2048", CUB, (UNTRAINED,)),
        "margin": ("Margin {} R50 128", margin, ()),
        "semihard": ("Triplet-Semihard sampling {} R50 128", margin, (recipes.SEMIHARD,)),
        "multi_similarity-r50": ("MS {} R50 512", similarity, (on_resnet,)),
        "multi_similarity-i3": ("MS {} I3 512", similarity, ()),
        "horde": ("Horde (Contrastive Loss) {} I3 512", recipes.horde("cub200"), ()),
    }
    average = Experiment(model=ModelSettings(pooling="average"))
    maximum = Experiment(model=ModelSettings(pooling="maximum"))
    rows = [
        Row(
            name=f"{name}-{word}",
            recipe=recipe,
            changes=(*changes, pooling),
            printed=table.row(label.format(word)),
        )
        for name, (label, recipe, changes) in methods.items()
        for word, pooling in (("avg", average), ("max", maximum))
    ]
    return Study(
        id="proxynca_pp/table11",
        title=table.title,
        source=SOURCE,
        metrics=table.columns,
        rows=tuple(rows),
        note="rows printed as I3 run here on BN-Inception, as in the systems' own code; how the authors trained "
        "the other systems is not stated",
    )


def _average() -> Study:
    """Figure 1: Recall@1, averaged over the four data sets of tables 3 to 6."""
    rows = []
    for number, dataset in DATA_OF_TABLE.items():
        table, own = TABLES[f"table{number}"], recipes.proxynca_pp(dataset)
        off = _without(dataset, *recipes.ENHANCEMENTS)
        for name, changes in (("ProxyNCA", off), ("ProxyNCA++", ())):
            printed = table.row(f"{name} R50 2048")
            row_name = f"{dataset}-{name.lower().replace('++', '_pp')}"
            rows.append(Row(name=row_name, recipe=own, changes=changes, printed=printed, series=name))
    return Study(
        id="proxynca_pp/figure1",
        title="Recall@1 of ProxyNCA and ProxyNCA++ on the four data sets",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        note="the figure prints averages: from 60.8 to 83.7, 22.9 points",
    )


def _sweeps() -> Study:
    """Figure 4: three curves of which the text prints no values; points that Table 7 prints are repeated."""
    full, scale = TABLES["table7"].row("ProxyNCA++ (Emb: 2048)"), TABLES["table7"].row("-scale")
    average, slow = TABLES["table7"].row("-max"), TABLES["table7"].row("-fast")
    temperatures = {1: scale, 3: None, 9: full, 18: None, 36: None}
    ks = {1: full, 2: None, 4: None, 8: None, 16: None, 32: None, 64: average}
    rates = {0.004: slow, 0.4: None, 4.0: None, 40.0: None, 400.0: full, 4000.0: None}
    rows = [
        Row(
            name=f"temperature-1/{inverse}",
            recipe=CUB,
            changes=(Experiment(loss=LossSettings(temperature=1 / inverse)),),
            printed=printed,
            x=1 / inverse,
            series="temperature",
        )
        for inverse, printed in temperatures.items()
    ]
    rows += [
        Row(
            name=f"k-{k}",
            recipe=CUB,
            changes=(Experiment(model=ModelSettings(pooling="k_max", pooling_k=k)),),
            printed=printed,
            x=k,
            series="k of k-max pooling",
        )
        for k, printed in ks.items()
    ]
    rows += [
        Row(
            name=f"proxy_lr-{rate:g}",
            recipe=CUB,
            changes=(Experiment(train=TrainSettings(proxy_lr=rate)),),
            printed=printed,
            x=rate,
            series="learning rate of the proxies",
        )
        for rate, printed in rates.items()
    ]
    return Study(
        id="proxynca_pp/figure4",
        title="Temperature, k of k-max pooling, and learning rate of the proxies, on CUB-200-2011",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        figure=Figure(log_x=True, panels=True),
        note="the values on the x axes are ours; printed numbers are those of table7, since the curves' own are "
        "in no text. The maps have 8 x 8 places: k = 1 is the maximum, k = 64 the average",
    )


def _dimensions() -> Study:
    """The rows of tables 3 and 4 that differ in the size of the embedding."""
    rows = [
        Row(
            name=f"{dataset}-{dim}",
            recipe=recipes.proxynca_pp(dataset),
            changes=(dimension(dim),) if dim != 2048 else (),
            printed=TABLES[f"table{number}"].row(f"ProxyNCA++ R50 {dim}"),
            x=dim,
            series=dataset,
        )
        for number, dataset in ((3, "cub200"), (4, "cars196"))
        for dim in (2048, 1024, 512)
    ]
    return Study(
        id="proxynca_pp/dimensions",
        title="Size of the embedding, on CUB-200-2011 and Cars196",
        source=SOURCE,
        metrics=("recall_at_1", "nmi", "nmi_geometric"),
        rows=tuple(rows),
        figure=Figure(x_label="dimension of the embedding", log_x=True),
        note="not a table of the paper: rows of tables 3 and 4 beside each other",
    )


def _similarity() -> Study:
    """Cosine against Euclidean distance of raw vectors, which the paper does not compare."""
    rows = [
        Row(name=name, recipe=replace(recipes.proxynca_pp(dataset), caveats=()), changes=changes)
        for name, dataset, changes in (
            ("cub200", "cub200", ()),
            ("cars196", "cars196", ()),
            ("cub200-without-norm", "cub200", _without("cub200", "norm")),
        )
    ]
    return Study(
        id="proxynca_pp/similarity",
        title="Embeddings compared by cosine, and raw by Euclidean distance as the authors' code does",
        source="ours",
        metrics=tuple(f"{by}_{key}" for key in recall_keys("cub200")[:1] for by in ("euclidean", "cosine")),
        rows=tuple(rows),
        note="not a table of the paper, which prints no such comparison",
    )


def _reference(number: int, note: str) -> Study:
    """Tables 1 and 2: facts, nothing to run."""
    table = TABLES[f"table{number}"]
    return Study(
        id=f"proxynca_pp/table{number}",
        title=table.title,
        source=SOURCE,
        metrics=(),
        columns=table.columns,
        rows=with_cited_rows(table, ()),
        note=note,
    )


STUDIES = (
    _reference(1, "nothing to run: the recipes of the other studies have these numbers"),
    _reference(2, "nothing to run: R50 is resnet50.tv_in1k here, the weights of this error"),
    *map(_comparison, DATA_OF_TABLE),
    _ablation(),
    *map(_added, (8, 9, 10)),
    _pooling(),
    _average(),
    _sweeps(),
    _dimensions(),
    _similarity(),
)
