# ruff: noqa: E501  (a row of a table is a line)
"""Proxy-Anchor: the comparison tables, batch size, embedding size, alpha and delta, and accuracy over time.

Source: Kim, Kim, Cho and Kwak, "Proxy Anchor Loss for Deep Metric Learning", CVPR 2020, and the README of its
released code [C]. Table 1 is its complexity table and Figures 1, 5 and 6 are its own; which of the other tables
bears which number is in no source at hand, so those numbers are ours.
"""

from lookalike.studies import baselines, recipes
from lookalike.studies.study import Figure, Published, Recipe, Row, Study, recall_keys, recalls

SOURCE = "Proxy-Anchor (CVPR 2020)"
OURS = "the number of this table is ours"
CITED = "as cited; trained with our recipe of that system"
LARGER = ("data.image_size=256", "data.resize=292")  # the rows marked with a dagger; resize from the code
R50 = "resnet50"

CUB, CARS = recipes.proxy_anchor("cub200"), recipes.proxy_anchor("cars196")
SOP, CLOTHES = recipes.proxy_anchor("sop"), recipes.proxy_anchor("inshop")


def _with_loss(recipe: Recipe, *settings: str) -> Recipe:
    """The authors trained their baselines with the base rate for the loss's own parameters too [C]."""
    return recipe.but(*settings, f"train.proxy_lr={recipe.experiment.train.lr}")


NCA = _with_loss(CARS, "loss.name=proxy_nca", *recipes.NCA_OF_PROXY_ANCHOR)
SEMIHARD = _with_loss(CARS, "loss.name=triplet_semihard", "batch.sampler=balanced", "batch.classes=45")
MULTI = _with_loss(CARS, "loss.name=multi_similarity", "batch.sampler=balanced", "batch.classes=45")
SOFT = _with_loss(CARS, "loss.name=soft_triple")
CONTRASTIVE = _with_loss(CARS, "loss.name=contrastive", "batch.sampler=balanced", "batch.classes=45")
TRIPLET = _with_loss(CARS, "loss.name=triplet", "batch.sampler=balanced", "batch.classes=45")


def _batches(recipe: Recipe, printed: dict[int, float]) -> tuple[Row, ...]:
    name = recipe.dataset
    return tuple(
        Row(f"{name}-{size}", recipe, (f"batch.size={size}",), recalls(name, printed.get(size)), size, name)
        for size in (30, 60, 90, 120, 150, 180)
    )


STUDIES = (
    Study(
        "proxy_anchor/table1", "What an epoch costs with each loss, on Cars196", SOURCE, ("seconds_per_epoch",),
        note="the paper gives orders of growth; ours are of the formulas: B batch, C classes, K centers; measured is "
        "the whole epoch, in which the network's own arithmetic dominates", rows=(
            Row("proxy_anchor", CARS.but("train.epochs=1"), note="B C similarities"),
            Row("proxy_nca", NCA.but("train.epochs=1"), note="B C similarities"),
            Row("soft_triple", SOFT.but("train.epochs=1"), note="B C K similarities, and C K^2 of the centers"),
            Row("contrastive", CONTRASTIVE.but("train.epochs=1"), note="B^2 pairs"),
            Row("multi_similarity", MULTI.but("train.epochs=1"), note="B^2 pairs"),
            Row("triplet_semihard", SEMIHARD.but("train.epochs=1"), note="B^3 triplets"),
            Row("triplet", TRIPLET.but("train.epochs=1"), note="B^3 triplets"),
        ),
    ),
    Study(
        "proxy_anchor/table2", "Comparison on CUB-200-2011 and Cars196", SOURCE, recall_keys("cub200"), note=OURS, rows=(
            Row("cub200-64", recipes.proxy_anchor("cub200", dim=64), (), recalls("cub200", 61.7, 73.0, 81.8, 88.8)),
            Row("cub200-512", CUB, (), recalls("cub200", 68.4, 79.2, 86.8, 91.6)),
            Row("cub200-512-256px", CUB, LARGER, recalls("cub200", 71.1, 80.4, 87.4, 92.5)),
            Row("cub200-512-readme", CUB, (), recalls("cub200", 69.1, 78.9, 86.1, 91.2, source="C")),
            Row("cub200-512-resnet50-readme", recipes.proxy_anchor("cub200", R50), (),
                recalls("cub200", 69.9, 79.6, 86.6, 91.4, source="C")),
            Row("cub200-soft_triple-512", baselines.soft_triple("cub200"), (), recalls("cub200", 65.4, 76.4, 84.5, 90.4), note=CITED),
            Row("cub200-soft_triple-64", baselines.soft_triple("cub200", 64), (), recalls("cub200", 60.1, 71.9, 81.2, 88.5), note=CITED),
            Row("cub200-multi_similarity-512", baselines.multi_similarity("cub200"), (), recalls("cub200", 65.7, 77.0, 86.3, 91.2), note=CITED),
            Row("cub200-horde-512", baselines.horde("cub200"), (), recalls("cub200", 66.3, 76.7, 84.7, 90.6), note=CITED),
            Row("cub200-margin-128", baselines.margin("cub200"), (), recalls("cub200", 63.6, 74.4, 83.1, 90.0), note=CITED),
            Row("cub200-proxynca-64", None, (), recalls("cub200", 49.2, 61.9, 67.9, 72.4), note="the first paper, cited"),
            Row("cars196-64", recipes.proxy_anchor("cars196", dim=64), (), recalls("cars196", 78.8)),
            Row("cars196-512", CARS, (), recalls("cars196", 86.1, 91.7, 95.0, 97.3)),
            Row("cars196-512-256px", CARS, LARGER, recalls("cars196", 88.3, 93.1, 95.7, 97.5)),
            Row("cars196-512-readme", CARS, (), recalls("cars196", 86.4, source="C")),
            Row("cars196-512-resnet50-readme", recipes.proxy_anchor("cars196", R50), (),
                recalls("cars196", 87.7, 92.7, 95.5, 97.3, source="C")),
            Row("cars196-soft_triple-512", baselines.soft_triple("cars196"), (), recalls("cars196", 84.5, 90.7, 94.5, 96.9), note=CITED),
            Row("cars196-soft_triple-64", baselines.soft_triple("cars196", 64), (), recalls("cars196", 78.6), note=CITED),
            Row("cars196-multi_similarity-512", baselines.multi_similarity("cars196"), (), recalls("cars196", 84.1), note=CITED),
            Row("cars196-horde-512", baselines.horde("cars196"), (), recalls("cars196", 83.9), note=CITED),
            Row("cars196-margin-128", baselines.margin("cars196"), (), recalls("cars196", 79.6), note=CITED),
        ),
    ),
    Study(
        "proxy_anchor/table3", "Comparison on Stanford Online Products", SOURCE, recall_keys("sop"), note=OURS, rows=(
            Row("proxy_anchor-64", recipes.proxy_anchor("sop", dim=64), (), recalls("sop", 76.5)),
            Row("proxy_anchor-512", SOP, (), recalls("sop", 79.1, 90.8, 96.2, 98.7)),
            Row("proxy_anchor-512-256px", SOP, LARGER, recalls("sop", 80.3)),
            Row("proxy_anchor-512-readme", SOP, (), recalls("sop", 79.2, source="C")),
            Row("soft_triple-512", baselines.soft_triple("sop"), (), recalls("sop", 78.3, 90.3, 95.9), note=CITED),
            Row("multi_similarity-512", baselines.multi_similarity("sop"), (), recalls("sop", 78.2), note=CITED),
            Row("margin-128", baselines.margin("sop"), (), recalls("sop", 72.7), note=CITED),
            Row("proxynca-64", None, (), recalls("sop", 73.7), note="the first paper, cited"),
        ),
    ),
    Study(
        "proxy_anchor/table4", "Comparison on In-Shop Clothes", SOURCE, recall_keys("inshop", 5), note=OURS, rows=(
            Row("proxy_anchor-128", recipes.proxy_anchor("inshop", dim=128), (), recalls("inshop", 90.8)),
            Row("proxy_anchor-512", CLOTHES, (), recalls("inshop", 91.5, 98.1, 98.8, None, 99.1)),
            Row("proxy_anchor-512-256px", CLOTHES, LARGER, recalls("inshop", 92.6)),
            Row("proxy_anchor-512-readme", CLOTHES, (), recalls("inshop", 91.9, source="C")),
            Row("multi_similarity-512", baselines.multi_similarity("inshop"), (), recalls("inshop", 89.7), note=CITED),
            Row("horde-512", baselines.horde("inshop"), (), recalls("inshop", 90.4), note=CITED),
        ),
    ),
    Study(
        "proxy_anchor/table5", "Size of the batch, on CUB-200-2011 and Cars196", SOURCE, ("recall_at_1",), note=OURS,
        figure=Figure(x_label="images a batch"),
        rows=(*_batches(CUB, {30: 65.9, 90: 68.4, 180: 69.0}), *_batches(CARS, {30: 84.6, 180: 86.4})),
    ),
    Study(
        "proxy_anchor/table6", "Size of the batch, on Stanford Online Products and In-Shop Clothes", SOURCE,
        ("recall_at_1",), note=f"{OURS}; SOP's range is printed as 76.0 to 79.3 without the batch sizes of its ends",
        figure=Figure(x_label="images a batch"), rows=(*_batches(SOP, {150: 79.1}), *_batches(CLOTHES, {90: 91.5})),
    ),
    Study(
        "proxy_anchor/figure1", "Accuracy over the time of training, on Cars196, batches of 150", SOURCE,
        ("recall_at_1", "seconds_per_epoch"), figure=Figure("training", "seconds of training"), note="the printed curves are in no source at hand", rows=(
            Row("proxy_anchor", CARS.but("batch.size=150"), series="Proxy-Anchor"),
            Row("proxy_nca", NCA.but("batch.size=150"), series="Proxy-NCA"),
            Row("soft_triple", SOFT.but("batch.size=150"), series="SoftTriple"),
            Row("multi_similarity", MULTI.but("batch.classes=30", "batch.per_class=5"), series="Multi-Similarity"),
            Row("triplet_semihard", SEMIHARD.but("batch.classes=30", "batch.per_class=5"), series="semi-hard triplet"),
        ),
    ),
    Study(
        "proxy_anchor/figure5", "Size of the embedding, on Cars196", SOURCE, ("recall_at_1",), figure=Figure(x_label="dimension of the embedding", log_x=True),
        note="of the curve's points our sources print those that also stand in the tables", rows=(
            *(
                Row(f"proxy_anchor-{dim}", CARS, (f"model.embedding_dim={dim}",), recalls("cars196", printed), dim, "Proxy-Anchor")
                for dim, printed in ((32, None), (64, 78.8), (128, None), (256, None), (512, 86.1), (1024, None))
            ),
            *(
                Row(f"multi_similarity-{dim}", baselines.multi_similarity("cars196", dim), (), recalls("cars196", printed), dim,
                    "Multi-Similarity")
                for dim, printed in ((32, None), (64, None), (128, None), (256, None), (512, 84.1), (1024, None))
            ),
        ),
    ),
    Study(
        "proxy_anchor/figure6", "Alpha and delta, on Cars196", SOURCE, ("recall_at_1",), figure=Figure(panels=True),
        note="of the curve's points our sources print the default's", rows=(
            *(
                Row(f"alpha-{alpha}", CARS, (f"loss.scale={alpha}",), published, alpha, "alpha (scale), delta 0.1")
                for alpha, published in ((4, {}), (8, {}), (16, {}), (32, {"recall_at_1": Published(86.1)}), (64, {}))
            ),
            *(
                Row(f"delta-{delta}", CARS, (f"loss.margin={delta}",), published, delta, "delta (margin), alpha 32")
                for delta, published in ((0.0, {}), (0.1, {"recall_at_1": Published(86.1)}), (0.2, {}), (0.3, {}), (0.4, {}))
            ),
        ),
    ),
)  # fmt: skip
