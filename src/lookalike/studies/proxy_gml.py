# ruff: noqa: E501  (a row of a table is a line)
"""ProxyGML: its ablation, its number of proxies and of neighbors, and what it costs against Proxy-Anchor.

Source: Zhu, Yang, Deng, Liu and Fu, "Fewer is More: A Deep Graph Metric Learning Perspective Using Fewer
Proxies", NeurIPS 2020: poster and slides [P], supplement and author response [S]. Names of the studies are ours.
"""

from lookalike.studies import baselines, recipes
from lookalike.studies.study import Figure, Published, Recipe, Row, Study, recall_keys, recalls

SOURCE = "ProxyGML (NeurIPS 2020)"
CITED = "as cited; trained with our recipe of that system"
CUB, CARS, SOP = (recipes.proxy_gml(name) for name in ("cub200", "cars196", "sop"))

# parts of the loss, each switched off
NO_BONUS = ("loss.positive_bonus=0.0",)  # the own class's proxies are not preferred when neighbors are chosen
NO_MASK = ("loss.mask=none",)  # the softmax runs over all classes
NO_REGULARIZER = ("loss.regularizer_weight=0.0",)


def _printed(nmi: float, recall: float) -> dict[str, Published]:
    return {"nmi": Published(nmi, None, "P"), "recall_at_1": Published(recall, None, "P")}


def _r1(value: float | None, source: str = "P") -> dict[str, Published]:
    return {} if value is None else {"recall_at_1": Published(value, None, source)}


def _anchor(dataset: str, batch: int, *, tricks: bool) -> Recipe:
    """Proxy-Anchor as ProxyGML ran it again; what the third of the three tricks is, is our reading."""
    plain = ("train.warmup_epochs=0", "model.pooling=average", "train.clip_value=null")
    return recipes.proxy_anchor(dataset).but(f"batch.size={batch}", *(() if tricks else plain))


STUDIES = (
    Study(
        "proxy_gml/comparison", "Comparison on CUB-200-2011, Cars196 and Stanford Online Products", SOURCE,
        (*recall_keys("cub200", 3), "recall_at_10", "recall_at_100", "nmi", "nmi_geometric"), rows=(
            Row("cub200-512", CUB, (), recalls("cub200", 66.6, 77.6, 86.4, nmi=69.8, source="P")),
            Row("cub200-384", CUB, ("model.embedding_dim=384",), recalls("cub200", 65.2, 76.4, 84.3, nmi=68.4, source="P")),
            Row("cub200-64", CUB, ("model.embedding_dim=64",), recalls("cub200", 59.4, 70.1, 80.4, nmi=65.1, source="P")),
            Row("cub200-soft_triple-512", baselines.soft_triple("cub200"), (),
                recalls("cub200", 65.4, 76.4, 84.5, nmi=69.3, source="P"), note=CITED),
            Row("cub200-htl-512", None, (), recalls("cub200", 57.1, source="P"), note="cited"),
            Row("cub200-hdml-512", None, (), recalls("cub200", 53.7, nmi=62.6, source="P"), note="cited"),
            Row("cub200-lifted-64", None, (), recalls("cub200", 43.6, nmi=56.6, source="P"), note="cited"),
            Row("cub200-semihard-64", None, (), recalls("cub200", 42.6, nmi=55.4, source="P"), note="cited"),
            Row("cars196-512", CARS, (), recalls("cars196", 85.5, 91.8, 95.3, nmi=72.4, source="P")),
            Row("cars196-384", CARS, ("model.embedding_dim=384",), recalls("cars196", 84.5, source="P")),
            Row("cars196-64", CARS, ("model.embedding_dim=64",), recalls("cars196", 78.9, source="P")),
            Row("cars196-soft_triple-512", baselines.soft_triple("cars196"), (),
                recalls("cars196", 84.5, 90.7, 94.5, nmi=70.1, source="P"), note=CITED),
            Row("cars196-htl-512", None, (), recalls("cars196", 81.4, source="P"), note="cited"),
            Row("cars196-hdml-512", None, (), recalls("cars196", 79.1, source="P"), note="cited"),
            Row("sop-512", SOP, (), recalls("sop", 78.0, 90.6, 96.2, nmi=90.2, geometric=True, source="P"), note="without a scale, as released"),
            Row("sop-512-scale-20", SOP, ("loss.scale=20.0",), note="the scale that a comment in the code suggests"),
            Row("sop-384", SOP, ("model.embedding_dim=384",), recalls("sop", 77.9, source="P")),
            Row("sop-64", SOP, ("model.embedding_dim=64",), recalls("sop", 76.2, source="P")),
            Row("sop-soft_triple-512", baselines.soft_triple("sop"), (), recalls("sop", 78.3, 90.3, 95.9, nmi=92.0, source="P"), note=CITED),
        ),
    ),
    Study(
        "proxy_gml/ablation", "What the positive bonus, the mask and the regularizer are worth, on Cars196", SOURCE,
        ("nmi", "recall_at_1"), rows=(
            Row("none", CARS, (*NO_BONUS, *NO_MASK, *NO_REGULARIZER), _printed(52.1, 47.3)),
            Row("bonus", CARS, (*NO_MASK, *NO_REGULARIZER), _printed(69.6, 83.3)),
            Row("mask", CARS, (*NO_BONUS, *NO_REGULARIZER), _printed(54.9, 66.1)),
            Row("regularizer", CARS, (*NO_BONUS, *NO_MASK), _printed(67.1, 81.7)),
            Row("mask+regularizer", CARS, NO_BONUS, _printed(68.8, 82.6)),
            Row("bonus+regularizer", CARS, NO_MASK, _printed(71.6, 84.5)),
            Row("bonus+mask", CARS, NO_REGULARIZER, _printed(70.7, 84.0)),
            Row("all", CARS, (), _printed(72.4, 85.5)),
        ),
    ),
    Study(
        "proxy_gml/grid", "Proxies of a class (N) and share of neighbors (r), on Cars196", SOURCE, ("recall_at_1",),
        figure=Figure(x_label="share of neighbors (r)", log_x=True), note="values printed without decimals are read from a curve", rows=tuple(
            Row(f"N-{proxies}-r-{ratio:g}", CARS,
                (f"loss.proxies_per_class={proxies}", f"loss.neighbor_ratio={ratio}"), _r1(printed), ratio, f"N = {proxies}")
            for proxies, curve in (
                (1, {0.05: None, 0.1: None, 1.0: 46}),
                (4, {0.03: None, 0.05: None, 0.1: None, 1.0: None}),
                (8, {0.02: None, 0.03: None, 0.05: None, 0.1: None, 1.0: None}),
                (12, {0.01: 44, 0.02: 74, 0.03: 84, 0.05: 85.5, 0.1: None, 1.0: 79}),
            )
            for ratio, printed in curve.items()
        ),
    ),
    Study(
        "proxy_gml/lambda", "Weight of the proxies' regularizer, on Cars196", SOURCE, ("recall_at_1",), figure=Figure(x_label="weight of the regularizer (lambda)"),
        note="of the curve's points our sources print those of the ablation", rows=tuple(
            Row(f"lambda-{weight}", CARS, (f"loss.regularizer_weight={weight}",), _r1(printed), weight, "regularizer_weight")
            for weight, printed in ((0.0, 84.0), (0.1, None), (0.3, 85.5), (0.5, None), (0.7, None), (1.0, None))
        ),
    ),
    Study(
        "proxy_gml/cost", "Time and memory beside Proxy-Anchor and SoftTriple, on Cars196", SOURCE,
        ("seconds_per_epoch", "peak_memory_mb"), note="the printed table is in no source at hand; memory is the GPU's", rows=(
            Row("proxy_gml", CARS.but("train.epochs=1")),
            Row("soft_triple", baselines.soft_triple("cars196").but("train.epochs=1")),
            Row("proxy_anchor-32", recipes.proxy_anchor("cars196").but("train.epochs=1", "batch.size=32")),
            Row("proxy_anchor-180", recipes.proxy_anchor("cars196").but("train.epochs=1")),
        ),
    ),
    Study(
        "proxy_gml/vs_proxy_anchor", "Proxy-Anchor with and without its tricks, at two batch sizes, beside ProxyGML", SOURCE,
        ("recall_at_1",), note="tricks: warm-up, average + maximum pooling, and, in our reading, clipped gradients", rows=tuple(
            row
            for dataset, own, plain, tricked, large in (
                ("cub200", 66.6, 35.8, 65.4, 66.1),
                ("cars196", 85.5, 20.3, 83.1, 84.2),
                ("sop", 78.0, 41.4, 75.7, 54.5),
            )
            for row in (
                Row(f"{dataset}-proxy_gml-32", recipes.proxy_gml(dataset), (), _r1(own)),
                Row(f"{dataset}-proxy_anchor-32-plain", _anchor(dataset, 32, tricks=False), (), _r1(plain, "S")),
                Row(f"{dataset}-proxy_anchor-32-tricks", _anchor(dataset, 32, tricks=True), (), _r1(tricked, "S")),
                Row(f"{dataset}-proxy_anchor-180-plain", _anchor(dataset, 180, tricks=False), (), _r1(large, "S")),
            )
        ),
    ),
)  # fmt: skip
