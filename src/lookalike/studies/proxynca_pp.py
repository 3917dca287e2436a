"""ProxyNCA++: what six enhancements of Proxy-NCA are worth, and how it compares."""

import re
from collections.abc import Mapping
from dataclasses import replace

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings, ModelSettings, TrainSettings
from lookalike.studies.published import PrintedRow, citation, printed_tables
from lookalike.studies.recipes import compared, four_papers
from lookalike.studies.recipes.base import RESNET50, dimension, network
from lookalike.studies.recipes.four_papers import ENHANCEMENTS
from lookalike.studies.study import CITED, Figure, Recipe, Row, Study, printed_study

SOURCE = citation("proxynca_pp")
TABLES = printed_tables("proxynca_pp")
RERUN = "the authors' rerun: no enhancement, one learning rate for everything (section 3.6)"

CUB = four_papers.proxynca_pp("cub200")
DATA_OF_TABLE = {3: "cub200", 4: "cars196", 5: "sop", 6: "inshop"}


def _without(dataset: str, *enhancements: str) -> tuple[Experiment, ...]:
    lr = four_papers.proxynca_pp(dataset).experiment.train.lr
    assert lr is not None
    return four_papers.without(*enhancements, lr=lr)


def _comparison(number: int) -> Study:
    """Tables 3 to 6, of one data set each."""
    dataset, table = DATA_OF_TABLE[number], TABLES[f"table{number}"]

    def row(label: str, name: str, recipe: Recipe, *changes: Experiment, note: str = "") -> Row:
        return Row(name, recipe, changes=changes, printed=table.row(label), note=note)

    own, rerun = four_papers.proxynca_pp(dataset), _without(dataset, *ENHANCEMENTS)
    softmax, slower = compared.norm_softmax(dataset), _without(dataset, "max", "fast")
    rows = [
        row("MS I3 512", "multi_similarity-512", compared.multi_similarity(dataset), note=CITED),
        row("HORDE I3 512", "horde-512", compared.horde(dataset), note=CITED),
        row("NormSoftMax R50 512", "norm_softmax-512", softmax, compared.NORM_SOFTMAX_512, note=CITED),
        row("NormSoftMax R50 2048", "norm_softmax-2048", softmax, note=CITED),
        row("ProxyNCA R50 2048", "proxynca-2048", own, *rerun, note=RERUN),
        row("ProxyNCA++ R50 512", "proxynca_pp-512", own, dimension(512)),
        row("ProxyNCA++ R50 1024", "proxynca_pp-1024", own, dimension(1024)),
        row("ProxyNCA++ (-max, -fast) R50 2048", "proxynca_pp-2048-max-fast", own, *slower),
        row("ProxyNCA++ R50 2048", "proxynca_pp-2048", own),
    ]
    if dataset != "inshop":
        rows.append(row("Margin R50 128", "margin-128", compared.margin(dataset), note=CITED))
    return printed_study(
        table,
        rows,
        metrics=(*table.columns, "nmi_geometric") if "nmi" in table.columns else None,
        note="HORDE and MS are printed as I3; they run here on BN-Inception, as in their own code",
    )


def _ablation() -> Study:
    """Table 7: one enhancement taken out."""
    table = TABLES["table7"]
    rows = []
    for printed in table.rows:
        less = printed.label if printed.label.startswith("-") else ""
        changes = _without("cub200", *less.split("-")[1:])
        rows.append(Row(less or "full", CUB, changes=changes, printed=printed))
    return printed_study(
        table,
        rows,
        metrics=(*table.columns, "nmi_geometric"),
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
        changes = _without("cub200", *(name for name in ENHANCEMENTS if name not in on))
        return Row("-".join(filter(None, words)), CUB, changes=changes, printed=printed)

    return printed_study(
        table,
        map(row, table.rows),
        note="the names of the enhancements are explained with table7; 32 experiments fill tables 7 to 10",
    )


UNTRAINED = Experiment(
    model=ModelSettings(norm="none", start="none"), train=TrainSettings(epochs=0, warmup_epochs=0)
)


def _pooling() -> Study:
    """Table 11: pooling under other methods."""
    table = TABLES["table11"]
    margin, similarity = compared.margin("cub200"), compared.multi_similarity("cub200")
    methods: dict[str, tuple[str, Recipe, tuple[Experiment, ...]]] = {
        "untrained": ("Without Training {} R50 2048", CUB, (UNTRAINED,)),
        "margin": ("Margin {} R50 128", margin, ()),
        "semihard": ("Triplet-Semihard sampling {} R50 128", margin, (compared.SEMIHARD,)),
        "multi_similarity-r50": ("MS {} R50 512", similarity, (network(RESNET50),)),
        "multi_similarity-i3": ("MS {} I3 512", similarity, ()),
        "horde": ("Horde (Contrastive Loss) {} I3 512", compared.horde("cub200"), ()),
    }
    average = Experiment(model=ModelSettings(pooling="average"))
    maximum = Experiment(model=ModelSettings(pooling="maximum"))
    return printed_study(
        table,
        [
            Row(f"{name}-{word}", recipe, changes=(*changes, pooling), printed=table.row(label.format(word)))
            for name, (label, recipe, changes) in methods.items()
            for word, pooling in (("avg", average), ("max", maximum))
        ],
        note="rows printed as I3 run here on BN-Inception, as in the systems' own code; how the authors trained "
        "the other systems is not stated",
    )


def _average() -> Study:
    """Figure 1: Recall@1, averaged over the four data sets of tables 3 to 6."""
    rows = []
    for number, dataset in DATA_OF_TABLE.items():
        table, own = TABLES[f"table{number}"], four_papers.proxynca_pp(dataset)
        for name, changes in (("ProxyNCA", _without(dataset, *ENHANCEMENTS)), ("ProxyNCA++", ())):
            printed = table.row(f"{name} R50 2048")
            row_name = f"{dataset}-{name.lower().replace('++', '_pp')}"
            rows.append(Row(row_name, own, changes=changes, printed=printed, series=name))
    return Study(
        id="proxynca_pp/figure1",
        title="Recall@1 of ProxyNCA and ProxyNCA++ on the four data sets",
        source=SOURCE,
        metrics=("recall_at_1",),
        rows=tuple(rows),
        note="the figure prints averages: from 60.8 to 83.7, 22.9 points",
    )


def _curve(
    series: str, points: Mapping[str, tuple[float, Experiment]], same_as: Mapping[str, str]
) -> list[Row]:
    """A curve of Figure 4: name, x and change of each point; `same_as` names rows of Table 7 that are points of it."""
    table = TABLES["table7"]
    return [
        Row(
            name,
            CUB,
            changes=(change,),
            printed=table.row(same_as[name]) if name in same_as else None,
            x=x,
            series=series,
        )
        for name, (x, change) in points.items()
    ]


def _sweeps() -> Study:
    """Figure 4: three curves of which the text prints no values; points that Table 7 prints are repeated."""
    full = "ProxyNCA++ (Emb: 2048)"
    temperatures = {
        f"temperature-1/{inverse}": (1 / inverse, Experiment(loss=LossSettings(temperature=1 / inverse)))
        for inverse in (1, 3, 9, 18, 36)
    }
    ks = {
        f"k-{k}": (k, Experiment(model=ModelSettings(pooling="k_max", pooling_k=k)))
        for k in (1, 2, 4, 8, 16, 32, 64)
    }
    rates = {
        f"proxy_lr-{rate:g}": (rate, Experiment(train=TrainSettings(proxy_lr=rate)))
        for rate in (0.004, 0.4, 4.0, 40.0, 400.0, 4000.0)
    }
    rows = [
        *_curve("temperature", temperatures, {"temperature-1/1": "-scale", "temperature-1/9": full}),
        *_curve("k of k-max pooling", ks, {"k-1": full, "k-64": "-max"}),
        *_curve("learning rate of the proxies", rates, {"proxy_lr-0.004": "-fast", "proxy_lr-400": full}),
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
            f"{dataset}-{dim}",
            four_papers.proxynca_pp(dataset),
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
        note="not a table of the paper: rows of tables 3 and 4 next to each other",
    )


def _similarity() -> Study:
    """Cosine against Euclidean distance of raw vectors, which the paper does not compare."""
    rows = [
        Row(name, replace(four_papers.proxynca_pp(dataset), caveats=()), changes=changes)
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
        metrics=("euclidean_recall_at_1", "cosine_recall_at_1"),
        rows=tuple(rows),
        note="not a table of the paper, which prints no such comparison",
    )


def _facts(number: int, note: str) -> Study:
    """Tables 1 and 2: facts, nothing to run."""
    table = TABLES[f"table{number}"]
    return printed_study(table, (), metrics=(), columns=table.columns, note=f"nothing to run: {note}")


STUDIES = (
    _facts(1, "the recipes of the other studies have these numbers"),
    _facts(2, "R50 is resnet50.tv_in1k here, the weights of this error"),
    *map(_comparison, DATA_OF_TABLE),
    _ablation(),
    *map(_added, (8, 9, 10)),
    _pooling(),
    _average(),
    _sweeps(),
    _dimensions(),
    _similarity(),
)
