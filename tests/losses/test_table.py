"""What the table of losses says: search ranges that can be built, arguments that are refused, and a new entry."""

import inspect

import pytest
import torch

from lookalike.config.experiment import Experiment
from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.losses import LOSSES, arguments_of, check_arguments
from lookalike.losses.build import BASE_LOSSES, build

from . import cases, test_laws
from .toy_loss import PullToProxy

RANGES = [(name, searched) for name in LOSSES for searched in LOSSES[name].search_space]


@pytest.mark.parametrize(("name", "searched"), RANGES, ids=lambda value: getattr(value, "name", value))
def test_every_loss_can_be_built_and_computed_at_both_ends_of_its_ranges(name, searched):
    embeddings = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    for number in (searched.low, searched.high):
        if number == 0 and searched.inverse:
            continue
        arguments = {**LOSSES[name].toy_arguments, searched.name: searched.argument(number)}
        check_arguments(name, arguments)
        value = build(LOSSES[name], 5, 4, arguments)(embeddings, torch.tensor([0, 0, 1, 1, 2, 2]))
        value.backward()
        assert value.isfinite()
        assert embeddings.grad.isfinite().all()


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_says_where_it_comes_from_and_what_its_arguments_are(name):
    kind = LOSSES[name]
    assert kind.paper
    assert inspect.getdoc(kind)
    assert {searched.name for searched in kind.search_space} <= set(arguments_of(kind))
    assert set(kind.toy_arguments) <= set(inspect.signature(kind).parameters)
    assert all(p.annotation is not p.empty for p in arguments_of(kind).values())


@pytest.mark.parametrize("name", LOSSES)
def test_help_on_a_loss_speaks_of_the_loss_and_not_of_torch_modules(name):
    kind = LOSSES[name]
    undescribed = [argument for argument in arguments_of(kind) if argument not in inspect.getdoc(kind)]
    assert not undescribed
    assert "(B, D)" in inspect.getdoc(kind.forward)
    assert "ArgumentError" in inspect.getdoc(kind.forward)
    assert "MetricLoss" in inspect.getdoc(kind.__init__)


@pytest.mark.parametrize("name", LOSSES)
def test_defaults_and_toy_arguments_have_the_annotated_types(name):
    defaults = {p.name: p.default for p in arguments_of(LOSSES[name]).values() if p.default is not p.empty}
    check_arguments(name, defaults)
    toy = LOSSES[name].toy_arguments
    check_arguments(name, {key: toy[key] for key in toy.keys() & arguments_of(LOSSES[name])})


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("proxy_anchor", {"scale": None}, "loss.scale is None; expected a number"),
        ("proxy_anchor", {"scale": "abc"}, "loss.scale is 'abc'; expected a number"),
        ("proxy_anchor", {"margin": [1]}, r"loss.margin is \[1\]; expected a number"),
        ("proxy_anchor", {"scale": True}, "loss.scale is True; expected a number"),
        ("proxy_anchor", {"scale": float("nan")}, "loss.scale is nan; expected a number"),
        ("soft_triple", {"centers_per_class": 2.0}, "centers_per_class is 2.0; expected a whole number"),
        ("proxy_nca", {"include_positive": 1}, "include_positive is 1; expected true or false"),
        ("proxy_gml", {"positive_bonus": "x"}, "positive_bonus is 'x'; expected a number or null"),
        ("hierarchical", {"coarse": 10}, r"coarse is 10; expected a list \(a whole number each\) or null"),
        (
            "hierarchical",
            {"base": {"name": "proxy_anchor", "settings": {"scale": None}}},
            "loss.base.settings.scale is None; expected a number",
        ),
    ],
)
def test_arguments_of_a_wrong_type_are_refused_by_name(name, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        check_arguments(name, arguments)


def test_unknown_names_are_refused_with_the_near_miss():
    with pytest.raises(UnknownNameError, match="'proxy_ancor'; did you mean 'proxy_anchor'"):
        check_arguments("proxy_ancor", {})
    with pytest.raises(UnknownNameError, match="no setting 'scal'; did you mean 'scale'"):
        check_arguments("proxy_anchor", {"scal": 3})
    with pytest.raises(UnknownNameError, match="no setting 'scal'"):
        check_arguments("horde", {"base": {"name": "proxy_anchor", "settings": {"scal": 3}}})


@pytest.fixture
def toy(monkeypatch):
    """The toy loss in the table: its file, and the one line."""
    for table in (BASE_LOSSES, LOSSES):
        monkeypatch.setitem(table, "toy", PullToProxy)
    monkeypatch.setitem(cases.SETTINGS, "toy", ("toy", PullToProxy.toy_arguments))


LAWS = [
    law
    for name, law in inspect.getmembers(test_laws, inspect.isfunction)
    if name.startswith("test_") and list(inspect.signature(law).parameters) == ["case"]
]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("test_"))
def test_a_new_loss_inherits_the_laws(toy, law):
    law("toy")


def test_a_new_loss_is_one_file_and_one_line(toy):
    """Settings and wrappers know it."""
    assert Experiment().override(["loss.name=toy", "loss.weight=2"]).check().loss.arguments == {"weight": 2}
    with pytest.raises(ArgumentError, match=r"loss\.weight is 'x'; expected a number"):
        Experiment().override(["loss.name=toy", "loss.weight=x"]).check()
    wrapped = LOSSES["hierarchical"](5, 4, base={"name": "toy", "settings": {"weight": 2.0}}, coarse=(2,))
    assert wrapped.levels[1].weight == 2.0
