# ruff: noqa: E501  (a row of a table is a line)
"""HPL: a proxy loss against the same loss on two levels, learned or given.

Source: Yang, Bastan, Zhu, Gray and Samaras, "Hierarchical Proxy-based Loss for Deep Metric Learning", WACV 2022:
the supplement only. Its code and main text are not at hand, so the settings marked ours in the recipes are
assumptions, and the numbers of the tables are ours.
"""

from lookalike.studies import recipes
from lookalike.studies.study import Figure, Published, Recipe, Row, Study, recall_keys, recalls

SOURCE = "HPL (WACV 2022), supplement"
OURS = "the number of this table is ours"
GIVEN = "coarse level given by the data, not learned"
BASE_NCA = "{name: proxy_nca, settings: {include_positive: true, temperature: 0.03125}}"
BASE_ANCHOR = "{name: proxy_anchor}"


def _levels(recipe: Recipe, base: str, coarse: int, every: int = 20) -> Recipe:
    """The recipe's loss on two levels; T of the tables is not printed but for the curve, 20 is ours."""
    return recipe.but(
        "loss.name=hierarchical", f"loss.base={base}", f"loss.coarse=[{coarse}]", f"loss.update_every={every}"
    )


def _given(recipe: Recipe, base: str) -> Recipe:
    return recipe.but("loss.name=hierarchical", f"loss.base={base}", "loss.parents=given")


def _nca(dataset: str, backbone: str = "resnet50") -> Recipe:
    return recipes.hpl(dataset, "proxy_nca", backbone)


def _anchor(dataset: str) -> Recipe:
    return recipes.hpl(dataset, "proxy_anchor")


STUDIES = (
    Study(
        "hpl/table1", "One level against two, on Stanford Online Products", SOURCE, recall_keys("sop"), note=OURS, rows=(
            Row("proxy_nca", _nca("sop"), (), recalls("sop", 77.6, 89.3, 94.6, 97.7)),
            Row("hpl-nca-500", _levels(_nca("sop"), BASE_NCA, 500), (), recalls("sop", 80.1, 91.1, 96.1, 98.6)),
            Row("proxy_anchor", _anchor("sop"), (), recalls("sop", 79.4, 90.4, 95.7, 98.5)),
            Row("hpl-pa-500", _levels(_anchor("sop"), BASE_ANCHOR, 500), (), recalls("sop", 80.0, 91.1, 96.3, 98.8)),
            Row("htl", None, (), recalls("sop", 74.8), note="cited"),
            Row("d&c", None, (), recalls("sop", 75.9), note="cited"),
            Row("mic", None, (), recalls("sop", 77.2), note="cited"),
            Row("diva", None, (), recalls("sop", 79.6), note="cited"),
        ),
    ),
    Study(
        "hpl/table2", "One level against two, on In-Shop Clothes", SOURCE, recall_keys("inshop"),
        note=f"{OURS}, and the number of coarse proxies too", rows=(
            Row("proxy_nca", _nca("inshop"), (), recalls("inshop", 87.21, 96.57, 97.63, 98.12, 98.34, 98.49)),
            Row("hpl-nca", _levels(_nca("inshop"), BASE_NCA, 500), (), recalls("inshop", 88.70, 96.83, 97.97, 98.38, 98.61, 98.79)),
            Row("proxy_anchor", _anchor("inshop"), (), recalls("inshop", 89.85, 97.14, 97.94, 98.33, 98.52, 98.73)),
            Row("hpl-pa", _levels(_anchor("inshop"), BASE_ANCHOR, 500), (),
                recalls("inshop", 92.46, 97.97, 98.57, 98.92, 99.11, 99.18), note="read through noise in a scan"),
        ),
    ),
    Study(
        "hpl/table3", "One level against two, learned and given, on iNaturalist", SOURCE, recall_keys("inaturalist"),
        note=f"{OURS}; which year and split of iNaturalist the paper used is in no source at hand", rows=(
            Row("proxy_nca", _nca("inaturalist"), (), recalls("inaturalist", 51.32, 62.56, 72.53, 80.80)),
            Row("hpl-nca-given-48", _given(_nca("inaturalist"), BASE_NCA), (), recalls("inaturalist", 51.63), note=GIVEN),
            Row("hpl-nca-48", _levels(_nca("inaturalist"), BASE_NCA, 48), (), recalls("inaturalist", 51.95)),
            Row("hpl-nca-500", _levels(_nca("inaturalist"), BASE_NCA, 500), (), recalls("inaturalist", 52.26, 63.53, 73.47, 81.62)),
        ),
    ),
    Study(
        "hpl/table4", "Number of coarse proxies, and a given hierarchy, on Stanford Online Products", SOURCE, ("recall_at_1",),
        note=OURS, rows=(
            Row("proxy_nca", _nca("sop"), (), recalls("sop", 77.6)),
            Row("given-12", _given(_nca("sop"), BASE_NCA), (), {"recall_at_1": Published(78.69)}, note=GIVEN),
            *(
                Row(f"learned-{coarse}", _levels(_nca("sop"), BASE_NCA, coarse), (), {"recall_at_1": Published(printed)})
                for coarse, printed in ((12, 79.33), (100, 79.83), (500, 80.13))
            ),
        ),
    ),
    Study(
        "hpl/t_curve", "Steps between two clusterings (T), with 10 coarse proxies, on Cars196", SOURCE, ("recall_at_1",),
        figure=Figure(x_label="steps between two clusterings (T)"), note="T counts steps: two of its values exceed the epochs trained", rows=(
            Row("proxy_nca", _nca("cars196", "bn_inception"), (), recalls("cars196", 82.8), note="no coarse level"),
            *(
                Row(f"T-{every}", _levels(_nca("cars196", "bn_inception"), BASE_NCA, 10, every), (), recalls("cars196", printed),
                    every, "HPL-NCA")
                for every, printed in ((10, 84.7), (20, 85.5), (40, 85.0), (80, 84.9))
            ),
        ),
    ),
)  # fmt: skip
