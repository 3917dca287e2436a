"""Losses beyond the four papers: Proxy Synthesis, PFML, Divide and Conquer, and those of pytorch-metric-learning."""

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings
from lookalike.losses import DivideAndConquer, PotentialField, ProxySynthesis
from lookalike.studies import recipes
from lookalike.studies.published import printed_tables
from lookalike.studies.study import Row, Study

TABLES = printed_tables("other_losses")
NORM_SOFTMAX = LossSettings(name="norm_softmax", temperature=1 / 23)
PROXY_NCA = LossSettings(name="proxy_nca", temperature=1 / 12, include_positive=True)


def _synthesis() -> Study:
    table = TABLES["proxy_synthesis"]
    rows = []
    for label, name, loss in (
        ("Norm-softmax", "norm_softmax", NORM_SOFTMAX),
        ("Proxy-NCA", "proxy_nca", PROXY_NCA),
    ):
        recipe = recipes.proxy_synthesis(loss, label)
        base = {"name": loss.name, "settings": loss.arguments}
        synthetic = LossSettings(name="proxy_synthesis", base=base, mu=1.0, beta=0.4)
        rows.append(Row(name=name, recipe=recipe, printed=table.row(label)))
        rows.append(
            Row(
                name=f"{name}-synthetic",
                recipe=recipe,
                changes=(Experiment(loss=synthetic),),
                printed=table.row(f"PS + {label}"),
            )
        )
    return Study(
        id="other_losses/proxy_synthesis",
        title=table.title,
        source=ProxySynthesis.paper,
        metrics=table.columns,
        rows=tuple(rows),
    )


def _potential_field() -> Study:
    table = TABLES["potential_field"]
    return Study(
        id="other_losses/potential_field",
        title=table.title,
        source=PotentialField.paper,
        metrics=table.columns,
        rows=tuple(
            Row(name=row.group, recipe=recipes.potential_field(row.group), printed=row) for row in table.rows
        ),
        note="only the formula is claimed to be the paper's",
    )


def _divide_and_conquer() -> Study:
    table = TABLES["divide_and_conquer"]
    rows = []
    for printed in table.rows:
        recipe = recipes.divide_and_conquer(printed.group)
        whole = Row(
            name=f"{printed.group}-whole",
            recipe=recipe,
            changes=(Experiment(loss=recipes.WHOLE),),
            note="not in the paper: the same loss without clusters and slices",
        )
        rows += [Row(name=printed.group, recipe=recipe, printed=printed), whole]
    return Study(
        id="other_losses/divide_and_conquer",
        title=table.title,
        source=DivideAndConquer.paper,
        metrics=table.columns,
        rows=tuple(rows),
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
    recipe = recipes.multi_similarity("cars196")
    return Study(
        id="other_losses/pml",
        title="Losses of pytorch-metric-learning in one training, on Cars196",
        source="Musgrave, Belongie and Lim, PyTorch Metric Learning, 2020",
        metrics=("recall_at_1", "map_at_r"),
        rows=tuple(
            Row(name=name, recipe=recipe, changes=(Experiment(loss=loss),)) for name, loss in NAMED.items()
        ),
        note="not a table of a paper: systems that the papers name, in the recipe of Multi-Similarity with the "
        "package's default arguments",
    )


STUDIES = (_synthesis(), _potential_field(), _divide_and_conquer(), _named())
