"""The studies: complete, consistent, and with the settings of the papers."""

import re

import pytest

from lookalike.config.experiment import Experiment
from lookalike.config.schema import LossSettings, ModelSettings, ScheduleSettings, TrainSettings
from lookalike.errors import UnknownNameError
from lookalike.models.backbones import describe
from lookalike.studies import STUDIES, Study, find_study
from lookalike.studies.changes import combined
from lookalike.studies.protocols import PROTOCOLS
from lookalike.studies.published import printed_tables
from lookalike.studies.recipes import four_papers
from lookalike.studies.show import differences
from lookalike.studies.study import DATASETS

NEEDED = [
    *(f"proxynca_pp/table{n}" for n in range(1, 12)),
    *(f"proxynca_pp/figure{n}" for n in (1, 4)),
    *(f"proxy_anchor/table{n}" for n in range(1, 7)),
    *(f"proxy_anchor/figure{n}" for n in (1, 4, 5, 6)),
    *(f"proxy_gml/{name}" for name in ("table1", "table2", "figure1", "figure2")),
    *(f"proxy_gml/{name}" for name in ("comparison", "ablation", "convergence")),
    *(f"hpl/table{n}" for n in range(1, 5)),
    *(f"hpl/figure{n}" for n in (2, 3)),
]
every_study = pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))


def row(study, name):
    return find_study(study).row(name).experiment()


def test_every_table_and_data_figure_is_there():
    assert set(NEEDED) <= set(STUDIES)


@every_study
def test_names_are_unique_and_can_be_typed(study):
    names = [row.name for row in study.rows]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.+=&/-]+", name) for name in names), names
    for one in study.rows:
        assert not one.published or set(one.published) & {*study.metrics, *study.columns}, one.name
        assert one.recipe is not None or one.published, f"{one.name} neither runs nor cites"


@every_study
def test_every_row_is_an_experiment_that_exists(study):
    for one in study.rows:
        if one.recipe is not None:
            experiment = one.experiment().check()
            assert experiment.train.epochs is not None
            assert one.recipe.source
            assert one.recipe.protocol in PROTOCOLS
            assert one.dataset in DATASETS


@every_study
def test_a_number_belongs_to_a_table_of_the_paper(study):
    """What is ours has an id without a number; figures whose values are in no text say so."""
    paper, _, name = study.id.partition("/")
    if re.fullmatch(r"table\d+", name):
        assert {*study.metrics, *study.columns} >= set(printed_tables(paper)[name].columns)
    if re.fullmatch(r"figure\d+", name) and name not in printed_tables(paper):
        assert study.note


def test_a_mistyped_metric_is_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'map_at_r'"):
        Study(id="my/study", title="", source="", metrics=("map_at_k",), rows=())


def test_unknown_names_come_with_the_near_miss():
    with pytest.raises(UnknownNameError, match="did you mean 'proxynca_pp/table7'"):
        find_study("proxynca_pp/tabel7")
    with pytest.raises(UnknownNameError, match="did you mean '-scale'"):
        find_study("proxynca_pp/table7").row("-scal")


def test_a_change_sets_only_what_is_set_in_it():
    base = Experiment(
        loss=LossSettings(name="proxy_anchor", scale=16.0),
        train=TrainSettings(epochs=3, schedule=ScheduleSettings(name="step", every=7)),
    )
    change = Experiment(train=TrainSettings(schedule=ScheduleSettings(gamma=0.1)))
    found = combined(base, change, Experiment(loss=LossSettings(margin=0.2)))
    assert (found.train.epochs, found.train.schedule.every, found.train.schedule.gamma) == (3, 7, 0.1)
    assert found.loss.arguments == {"scale": 16.0, "margin": 0.2}
    other = combined(base, Experiment(loss=LossSettings(name="proxy_nca")))
    assert other.loss.arguments == {}


# ---- the papers' settings, one by one ----


def test_the_ablation_differs_in_one_thing_per_row():
    changed = {one.name: set(differences(one)) for one in find_study("proxynca_pp/table7").rows}
    assert changed == {
        "full": set(),
        "-scale": {"loss.temperature"},
        "-max": {"model.pooling"},
        "-norm": {"model.norm"},
        "-cbs": {"batch.sampler"},
        "-fast": {"train.proxy_lr"},
        "-prob": {"loss.name", "loss.include_positive"},
    }


def test_equal_labels_of_tables_7_to_10_are_equal_experiments_with_equal_numbers():
    """The four tables print 32 distinct configurations and never contradict each other."""
    found = {}
    for number in (7, 8, 9, 10):
        for one in find_study(f"proxynca_pp/table{number}").rows:
            key = one.experiment().model_dump_json()
            printed = one.published["recall_at_1"].text
            assert found.setdefault(key, printed) == printed, one.name
    assert len(found) == 32


def test_recipes_agree_with_table_1():
    rows = {"CUB200": "cub200", "Cars196": "cars196", "Sop": "sop", "InShop": "inshop"}
    for label, dataset in rows.items():
        printed = printed_tables("proxynca_pp")["table1"].row(label).numbers
        experiment = four_papers.proxynca_pp(dataset).experiment
        train, batch = experiment.train, experiment.batch
        assert batch.classes * batch.per_class == float(printed["batch size"].text)
        assert batch.per_class == float(printed["cbs"].text)
        assert (train.lr, train.proxy_lr) == (float(printed["base lr"].text), float(printed["proxy lr"].text))


def test_figure_1_averages_to_what_the_text_says():
    values = {"ProxyNCA": [], "ProxyNCA++": []}
    for one in find_study("proxynca_pp/figure1").rows:
        values[one.series].append(one.published["recall_at_1"].value)
    gain = sum(values["ProxyNCA++"]) / 4 - sum(values["ProxyNCA"]) / 4
    assert gain == pytest.approx(22.9, abs=0.05)


def test_resnet_50_starts_from_the_weights_of_the_printed_error():
    used = {
        one.experiment().model.backbone
        for study in STUDIES.values()
        for one in study.rows
        if one.recipe is not None
    }
    assert used == {"resnet50.tv_in1k", "bn_inception"}
    assert {describe(name).preprocessing.interpolation for name in used} == {"bilinear"}


def test_multi_similarity_pools_by_the_maximum_and_starts_kaiming():
    model = row("proxy_anchor/table2", "cub200-multi_similarity-512").model
    assert (model.pooling, model.start) == ("maximum", "kaiming")
    assert row("proxy_anchor/table2", "cub200-proxy_anchor-512").model.start == "kaiming"
    assert row("proxynca_pp/table3", "proxynca_pp-2048").model.start == "random"


def test_the_plain_proxy_anchor_of_proxy_gml_is_without_its_three_skills():
    plain = row("proxy_gml/table2", "cub200-proxy_anchor-32-plain")
    assert (plain.train.optimizer, plain.train.warmup_epochs, plain.model.pooling, plain.batch.size) == (
        "adam", 0, "average", 32
    )  # fmt: skip
    skills = row("proxy_gml/table2", "cub200-proxy_anchor-32-skills")
    assert (skills.train.optimizer, skills.train.warmup_epochs, skills.model.pooling) == (
        "adamw", 1, "average_plus_maximum"
    )  # fmt: skip
    assert row("proxy_gml/table2", "sop-proxy_anchor-180-plain").batch.size == 180


def test_masks_without_the_bonus_are_the_codes():
    rows = {one.name: one.experiment().loss.arguments for one in find_study("proxy_gml/ablation").rows}
    masks = {name: arguments.get("mask", "selected") for name, arguments in rows.items()}
    assert masks["mask"] == masks["mask+regularizer"] == "nonzero"
    assert masks["bonus+mask+regularizer"] == masks["bonus+mask"] == "selected"
    assert masks["none"] == masks["bonus"] == masks["regularizer"] == masks["bonus+regularizer"] == "none"


def test_horde_is_on_cosines():
    assert row("proxynca_pp/table3", "horde-512").loss.arguments["base"] == {"name": "cosine_contrastive"}


def test_soft_triple_has_no_warm_up_and_falls_on_entering_epochs_20_and_40():
    train = row("proxy_anchor/table2", "cars196-soft_triple-512").train
    assert (train.warmup_epochs, train.schedule.milestones) == (0, (19, 39))


def test_norm_softmax_has_no_linear_layer_at_full_width():
    assert row("proxynca_pp/table3", "norm_softmax-2048").model.start == "none"
    small = row("proxynca_pp/table3", "norm_softmax-512").model
    assert (small.start, small.embedding_dim) == ("random", 512)
    assert row("proxynca_pp/table3", "norm_softmax-2048").train.schedule.milestones == (16,)


def test_pooling_without_training_is_pooling_alone():
    for name, pooling in (("untrained-avg", "average"), ("untrained-max", "maximum")):
        found = row("proxynca_pp/table11", name)
        model = ModelSettings(
            backbone="resnet50.tv_in1k",
            weights="hub",
            pooling=pooling,
            finish="none",
            views=1,
            precision="float32",
        )
        assert found.model == model.model_copy(update={"start": "none", "embedding_dim": 2048})
        assert found.train.epochs == 0


def test_proxynca_pp_is_measured_on_raw_vectors():
    similarity = {
        one.recipe.similarity
        for one in find_study("proxynca_pp/table3").rows
        if one.recipe is not None and one.recipe.system == "ProxyNCA++"
    }
    assert similarity == {"euclidean"}
    assert four_papers.proxy_anchor("cub200").similarity == "cosine"


def test_hpl_is_as_its_supplement_says():
    nca = row("hpl/table2", "proxy_nca")
    assert nca.loss.arguments == {"temperature": 1.0, "include_positive": False}
    assert (nca.train.schedule.name, nca.train.warmup_epochs, nca.train.clip_value) == ("constant", 0, None)
    assert (nca.train.optimizer, nca.train.lr, nca.batch.size, nca.train.epochs) == ("adamw", 1e-4, 128, 30)
    assert not nca.train.compat.random_proxies
    for dataset, table in (("inshop", 1), ("sop", 2)):
        assert find_study(f"hpl/table{table}").row("hpl-pa").dataset == dataset
        assert row(f"hpl/table{table}", "hpl-pa").loss.arguments["coarse"] == [500]
    assert row("hpl/table4", "hpl-nca-given-48").loss.arguments["parents"] == "given:class"
    folds = row("hpl/protocol2", "sop-hpl-nca")
    assert (folds.train.optimizer, folds.train.lr) == ("rmsprop", 1e-6)
    assert find_study("hpl/protocol2").row("sop-hpl-nca").recipe.trials == 10


@pytest.mark.parametrize(
    ("study", "protocol"),
    [
        ("proxynca_pp/table7", "two_stage"),
        ("proxy_anchor/table5", "papers"),
        ("proxy_gml/ablation", "papers"),
        ("hpl/table1", "papers"),
        ("hpl/protocol2", "folds"),
    ],
)
def test_every_recipe_names_its_protocol(study, protocol):
    assert {one.recipe.protocol for one in find_study(study).rows if one.recipe is not None} == {protocol}


def test_figures_vary_all_that_the_papers_vary():
    alphas = {one.series for one in find_study("proxy_anchor/figure6").rows}
    assert len(find_study("proxy_anchor/figure6").rows) == 25
    assert len(alphas) == 5
    assert {one.x for one in find_study("hpl/figure2").rows} == {None, 10, 20, 40, 80}
    losses = {one.experiment().loss.name for one in find_study("proxy_anchor/figure1").rows}
    assert losses == {"proxy_anchor", "multi_similarity", "proxy_nca", "triplet_semihard", "n_pairs"}
