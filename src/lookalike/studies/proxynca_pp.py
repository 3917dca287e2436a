# ruff: noqa: E501  (a row of a table is a line)
"""ProxyNCA++: what six enhancements of Proxy-NCA are worth, and how it compares.

Source: Teh, DeVries and Taylor, "ProxyNCA++: Revisiting and Revitalizing Proxy Neighborhood Component Analysis",
ECCV 2020. The ablation is its Table 7 and the sweeps are its Figure 4; which of its other tables bears which
number is in no source at hand, so those numbers are ours.
"""

from lookalike.studies import baselines, recipes
from lookalike.studies.study import Figure, Published, Row, Study, recall_keys, recalls

SOURCE = "ProxyNCA++ (ECCV 2020)"
OURS = "the number of this table is ours"
NMI = f"{OURS}; ProxyNCA++'s code computes the geometric NMI, most others the arithmetic one"
CITED = "as cited; trained with our recipe of that system"

CUB, CARS = recipes.proxynca_pp("cub200"), recipes.proxynca_pp("cars196")
SOP, CLOTHES = recipes.proxynca_pp("sop"), recipes.proxynca_pp("inshop")
SMALLER = {1024: ("model.embedding_dim=1024",), 512: ("model.embedding_dim=512",)}
# the enhancements, each switched off
NO_SCALE = ("loss.temperature=1.0",)
NO_MAX = ("model.pooling=average",)
NO_NORM = ("model.norm=none",)
NO_CBS = ("batch.sampler=random",)
NO_FAST = ("train.proxy_lr=0.004",)
NO_PROB = ("loss.name=proxy_nca", f"loss.temperature={1 / 9}", "loss.include_positive=false")


def _r1(value: float, source: str = "S") -> dict[str, Published]:
    return {"recall_at_1": Published(value, None, source)}


STUDIES = (
    Study(
        "proxynca_pp/table3", "Comparison on CUB-200-2011", SOURCE, (*recall_keys("cub200"), "nmi", "nmi_geometric"), note=NMI, rows=(
            Row("proxynca_pp-2048", CUB, published=recalls("cub200", 72.2, 82.0, 89.2, 93.5, nmi=75.8, geometric=True,
                                                           spreads=(0.8, 0.6, 0.6, 0.4), nmi_spread=0.8)),
            Row("proxynca_pp-1024", CUB, SMALLER[1024], recalls("cub200", 70.2, nmi=74.2, geometric=True, spreads=(1.6,))),
            Row("proxynca_pp-512", CUB, SMALLER[512], recalls("cub200", 69.0, 79.8, 87.3, 92.7, nmi=73.9, geometric=True, spreads=(0.8,))),
            Row("proxynca-2048", recipes.proxynca_baseline("cub200"), (),
                recalls("cub200", 59.3, 71.2, 80.7, 88.1, nmi=63.3, geometric=True, spreads=(0.4,)), note="the authors' rerun"),
            Row("norm_softmax-2048", baselines.norm_softmax("cub200"), (), recalls("cub200", 65.3, 76.7, 85.4, 91.8), note=CITED),
            Row("norm_softmax-512", baselines.norm_softmax("cub200", 512), (), recalls("cub200", 61.3, 73.9, 83.5, 90.0), note=CITED),
            Row("margin-128", baselines.margin("cub200"), (), recalls("cub200", 63.6, 74.4, 83.1, 90.0, nmi=69.0), note=CITED),
            Row("multi_similarity-512", baselines.multi_similarity("cub200"), (), recalls("cub200", 65.7, 77.0, 86.3, 91.2), note=CITED),
            Row("soft_triple-512", baselines.soft_triple("cub200"), (), recalls("cub200", 65.4, 76.4, 84.5, 90.4, nmi=69.3), note=CITED),
            Row("horde-512", baselines.horde("cub200"), (), recalls("cub200", 66.8, 77.4, 85.1, 91.0), note=CITED),
            Row("proxynca-paper-64", None, (), recalls("cub200", 49.2, 61.9, 67.9, 72.4, nmi=59.5), note="the first paper, cited"),
        ),
    ),
    Study(
        "proxynca_pp/table4", "Comparison on Cars196", SOURCE, (*recall_keys("cars196"), "nmi", "nmi_geometric"), note=NMI, rows=(
            Row("proxynca_pp-2048", CARS, published=recalls("cars196", 90.1, 94.5, 97.0, 98.4, nmi=76.6, geometric=True, spreads=(0.2,))),
            Row("proxynca_pp-1024", CARS, SMALLER[1024], recalls("cars196", 87.6)),
            Row("proxynca_pp-512", CARS, SMALLER[512], recalls("cars196", 86.5, nmi=73.8, geometric=True, spreads=(0.4,))),
            Row("proxynca-2048", recipes.proxynca_baseline("cars196"), (), recalls("cars196", 62.6, spreads=(9.1,)),
                note="the authors' rerun"),
            Row("norm_softmax-2048", baselines.norm_softmax("cars196"), (), recalls("cars196", 89.3), note=CITED),
            Row("norm_softmax-512", baselines.norm_softmax("cars196", 512), (), recalls("cars196", 84.2), note=CITED),
            Row("margin-128", baselines.margin("cars196"), (), recalls("cars196", 79.6), note=CITED),
            Row("multi_similarity-512", baselines.multi_similarity("cars196"), (), recalls("cars196", 84.1), note=CITED),
            Row("soft_triple-512", baselines.soft_triple("cars196"), (), recalls("cars196", 84.5, 90.7, 94.5, 96.9, nmi=70.1), note=CITED),
            Row("horde-512", baselines.horde("cars196"), (), recalls("cars196", 86.2), note=CITED),
            Row("proxynca-paper-64", None, (), recalls("cars196", 73.2), note="the first paper, cited"),
        ),
    ),
    Study(
        "proxynca_pp/table5", "Comparison on Stanford Online Products", SOURCE, recall_keys("sop"), note=OURS, rows=(
            Row("proxynca_pp-2048", SOP, published=recalls("sop", 81.4, 92.4, 96.9, 99.0, spreads=(0.1,))),
            Row("proxynca_pp-1024", SOP, SMALLER[1024], recalls("sop", 80.7, 92.0, 96.7, 98.9)),
            Row("proxynca_pp-512", SOP, SMALLER[512], recalls("sop", 80.7, 92.0, 96.7, 98.9)),
            Row("proxynca-2048", recipes.proxynca_baseline("sop"), (), recalls("sop", 62.1), note="the authors' rerun"),
            Row("norm_softmax-2048", baselines.norm_softmax("sop"), (), recalls("sop", 79.5), note=CITED),
            Row("margin-128", baselines.margin("sop"), (), recalls("sop", 72.7), note=CITED),
            Row("multi_similarity-512", baselines.multi_similarity("sop"), (), recalls("sop", 78.2), note=CITED),
            Row("soft_triple-512", baselines.soft_triple("sop"), (), recalls("sop", 78.3, 90.3, 95.9), note=CITED),
            Row("proxynca-paper-64", None, (), recalls("sop", 73.7), note="the first paper, cited"),
        ),
    ),
    Study(
        "proxynca_pp/table6", "Comparison on In-Shop Clothes", SOURCE, recall_keys("inshop", 5), note=OURS, rows=(
            # printed at K = 1, 10, 20, 30 and 40; at which K the fourth number of other papers stands differs
            Row("proxynca_pp-2048", CLOTHES, published=recalls("inshop", 90.9, 98.2, 98.9, 99.1, 99.4, spreads=(0.3,))),
            Row("proxynca_pp-512", CLOTHES, SMALLER[512], recalls("inshop", 90.4)),
            Row("norm_softmax-2048", baselines.norm_softmax("inshop"), (), recalls("inshop", 89.4), note=CITED),
            Row("multi_similarity-512", baselines.multi_similarity("inshop"), (), recalls("inshop", 89.7), note=CITED),
            Row("horde-512", baselines.horde("inshop"), (), recalls("inshop", 90.4), note=CITED),
        ),
    ),
    Study(
        "proxynca_pp/table7", "What each enhancement is worth: ProxyNCA++ with one left out, on CUB-200-2011", SOURCE,
        ("recall_at_1", "map_at_r"), rows=(
            Row("full", CUB, (), _r1(72.2)),
            Row("-scale", CUB, NO_SCALE, _r1(61.4), note="temperature 1 instead of 1/9"),
            Row("-max", CUB, NO_MAX, _r1(69.0), note="average pooling"),
            Row("-norm", CUB, NO_NORM, _r1(69.6), note="no layer norm"),
            Row("-cbs", CUB, NO_CBS, _r1(69.6), note="random batches instead of balanced ones"),
            Row("-fast", CUB, NO_FAST, _r1(70.3), note="proxies at the rate of the network"),
            Row("-prob", CUB, NO_PROB, _r1(71.1), note="the own proxy left out of the denominator"),
        ),
    ),
    Study(
        "proxynca_pp/table8", "Pooling without any training, on CUB-200-2011", SOURCE, ("recall_at_1",), note=OURS, rows=(
            Row("average", CUB.but("train.epochs=0", "model.start=identity"), NO_MAX, _r1(45.0)),
            Row("maximum", CUB.but("train.epochs=0", "model.start=identity"), (), _r1(53.1)),
        ),
    ),
    Study(
        "proxynca_pp/table9", "Size of the embedding", SOURCE, ("recall_at_1", "nmi_geometric"), note=OURS, rows=(
            Row("cub200-2048", CUB, (), recalls("cub200", 72.2, nmi=75.8, geometric=True, spreads=(0.8,), nmi_spread=0.8)),
            Row("cub200-1024", CUB, SMALLER[1024], recalls("cub200", 70.2, nmi=74.2, geometric=True, spreads=(1.6,))),
            Row("cub200-512", CUB, SMALLER[512], recalls("cub200", 69.0, nmi=73.9, geometric=True, spreads=(0.8,))),
            Row("cars196-2048", CARS, (), recalls("cars196", 90.1, nmi=76.6, geometric=True, spreads=(0.2,))),
            Row("cars196-1024", CARS, SMALLER[1024], recalls("cars196", 87.6)),
            Row("cars196-512", CARS, SMALLER[512], recalls("cars196", 86.5, nmi=73.8, geometric=True, spreads=(0.4,))),
        ),
    ),
    Study(
        "proxynca_pp/table10", "The enhancements added one by one to ProxyNCA, on CUB-200-2011", SOURCE,
        ("recall_at_1", "map_at_r"), note=f"{OURS}, and so is the order; only the ends are printed in our sources", rows=(
            Row("proxynca", CUB, (*NO_PROB, *NO_SCALE, *NO_CBS, *NO_NORM, *NO_MAX, *NO_FAST), _r1(59.3)),
            Row("+prob", CUB, (*NO_SCALE, *NO_CBS, *NO_NORM, *NO_MAX, *NO_FAST)),
            Row("+scale", CUB, (*NO_CBS, *NO_NORM, *NO_MAX, *NO_FAST)),
            Row("+cbs", CUB, (*NO_NORM, *NO_MAX, *NO_FAST)),
            Row("+norm", CUB, (*NO_MAX, *NO_FAST)),
            Row("+max", CUB, NO_FAST, _r1(70.3)),
            Row("+fast", CUB, (), _r1(72.2)),
        ),
    ),
    Study(
        "proxynca_pp/table11", "How vectors are compared: by cosine, or raw by Euclidean distance as the authors do", SOURCE,
        ("euclidean_recall_at_1", "recall_at_1", "map_at_r"), note=OURS, rows=(
            Row("cub200", CUB, (), {"euclidean_recall_at_1": Published(72.2, 0.8)}),
            Row("cars196", CARS, (), {"euclidean_recall_at_1": Published(90.1, 0.2)}),
            Row("cub200-without-norm", CUB, NO_NORM, {"euclidean_recall_at_1": Published(69.6)}),
        ),
    ),
    Study(
        "proxynca_pp/figure4", "Temperature, k of k-max pooling, and rate of the proxies, on CUB-200-2011", SOURCE,
        ("recall_at_1",), figure=Figure(log_x=True, panels=True),
        note="the curve's printed points are in no source at hand; those shown are the ablation's", rows=(
            *(
                Row(f"temperature-1/{inverse}", CUB, (f"loss.temperature={1 / inverse}",), printed, 1 / inverse, "temperature")
                for inverse, printed in ((1, _r1(61.4)), (3, {}), (9, _r1(72.2)), (18, {}), (36, {}))
            ),
            *(
                Row(f"k-{k}", CUB, ("model.pooling=k_max", f"model.pooling_k={k}"), printed, k, "k of k-max pooling",
                    "8 x 8 places; 1 is the maximum, 64 the average")
                for k, printed in ((1, _r1(72.2)), (2, {}), (4, {}), (8, {}), (16, {}), (32, {}), (64, _r1(69.0)))
            ),
            *(
                Row(f"proxy_lr-{rate:g}", CUB, (f"train.proxy_lr={rate}",), printed, rate, "rate of the proxies")
                for rate, printed in ((0.004, _r1(70.3)), (0.4, {}), (4.0, {}), (40.0, {}), (400.0, _r1(72.2)), (4000.0, {}))
            ),
        ),
    ),
)  # fmt: skip
