"""Losses beyond the four papers: Proxy Synthesis, PFML, Divide and Conquer, and those of pytorch-metric-learning."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings
from lookalike.losses import DivideAndConquer, NamedPML, PotentialField, ProxySynthesis
from lookalike.studies.published import printed_tables
from lookalike.studies.recipes import compared, hierarchy, newer
from lookalike.studies.study import Row, Study, printed_study

TABLES = printed_tables("other_losses")


def _synthesis() -> Study:
    table = TABLES["proxy_synthesis"]
    rows = []
    for label, loss in (
        ("Norm-softmax", LossSettings(name="norm_softmax", temperature=1 / 23)),
        ("Proxy-NCA", LossSettings(name="proxy_nca", temperature=1 / 12, include_positive=True)),
    ):
        recipe = newer.proxy_synthesis(loss, label)
        base = {"name": loss.name, "settings": loss.arguments}
        synthetic = Experiment(loss=LossSettings(name="proxy_synthesis", base=base, mu=1.0, beta=0.4))
        printed = table.row(f"PS + {label}")
        rows.append(Row(loss.name, recipe, printed=table.row(label)))
        rows.append(Row(f"{loss.name}-synthetic", recipe, changes=(synthetic,), printed=printed))
    return printed_study(table, rows, source=ProxySynthesis.paper)


def _potential_field() -> Study:
    table = TABLES["potential_field"]
    return printed_study(
        table,
        [Row(printed.group, newer.potential_field(printed.group), printed=printed) for printed in table.rows],
        source=PotentialField.paper,
        note="only the formula is claimed to be the paper's",
    )


def _divide_and_conquer() -> Study:
    table, whole = TABLES["divide_and_conquer"], (Experiment(loss=hierarchy.WHOLE),)
    note = "not in the paper: the same loss without clusters and slices"
    rows = []
    for printed in table.rows:
        recipe = hierarchy.divide_and_conquer(printed.group)
        rows.append(Row(printed.group, recipe, printed=printed))
        rows.append(Row(f"{printed.group}-whole", recipe, changes=whole, note=note))
    return printed_study(
        table,
        rows,
        source=DivideAndConquer.paper,
        note="the numbers are the README's, slightly above the paper's by its own words; HPL's Table 2 cites 75.9 on "
        "Stanford Online Products",
    )


NAMED = {
    "angular": LossSettings(name="pml", loss_class="AngularLoss", miner_class="AngularMiner"),
    "histogram": LossSettings(name="pml", loss_class="HistogramLoss", loss_arguments={"n_bins": 100}),
    "tuplet_margin": LossSettings(name="pml", loss_class="TupletMarginLoss"),
    "smooth_ap": LossSettings(name="pml", loss_class="SmoothAPLoss"),
    "nca": LossSettings(name="pml", loss_class="NCALoss"),
    "sphere_face": LossSettings(name="pml", loss_class="SphereFaceLoss"),
    "circle": LossSettings(name="pml", loss_class="CircleLoss"),
    "supervised_contrastive": LossSettings(name="pml", loss_class="SupConLoss"),
}


def _named() -> Study:
    recipe = compared.multi_similarity("cars196")
    return Study(
        id="other_losses/pml",
        title="Losses of pytorch-metric-learning in one training, on Cars196",
        source=NamedPML.paper.partition(";")[0],
        metrics=("recall_at_1", "map_at_r"),
        rows=tuple(Row(name, recipe, changes=(Experiment(loss=loss),)) for name, loss in NAMED.items()),
        note="not a table of a paper: systems that the papers name, in the recipe of Multi-Similarity with the "
        "package's default arguments",
    )


STUDIES = (_synthesis(), _potential_field(), _divide_and_conquer(), _named())
