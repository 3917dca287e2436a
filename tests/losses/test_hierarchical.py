import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.losses import LOSSES, HierarchicalProxyLoss, NormSoftmax, ProxyAnchor, ProxyLoss
from lookalike.losses.spherical_kmeans import spherical_kmeans

from .twins import few_examples

BASES = [name for name, kind in LOSSES.items() if issubclass(kind, ProxyLoss)]
CLASSES, DIM = 6, 4


def pairs_of_classes(noise=0.05):
    """Directions of six classes that come in three pairs of near twins: 0-1, 2-3, 4-5."""
    g = torch.Generator().manual_seed(0)
    return F.normalize(
        torch.eye(DIM)[:3].repeat_interleave(2, dim=0) + noise * torch.randn(6, DIM, generator=g)
    )


def loss_of(proxies=None, **settings):
    loss = HierarchicalProxyLoss(
        CLASSES, DIM, **{"coarse": (3,), "generator": torch.Generator().manual_seed(0), **settings}
    )
    if proxies is not None:
        loss.proxies.data = proxies.repeat_interleave(loss.proxy_loss.proxies_per_class, dim=0)
    return loss


def batch(seed=1):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(8, DIM, generator=g), torch.randint(0, CLASSES, (8,), generator=g)


def parts(groups):
    """The groups as sets of classes, whatever their numbers."""
    return {frozenset(np.flatnonzero(np.equal(groups, g)).tolist()) for g in set(groups)}


TWINS = {frozenset({0, 1}), frozenset({2, 3}), frozenset({4, 5})}


@pytest.mark.parametrize("mode", ["free", "means", "constant"])
def test_classes_that_look_alike_are_grouped(mode):
    loss = loss_of(pairs_of_classes(), coarse_mode=mode)
    loss(*batch())
    (groups,) = loss.groups()
    assert parts(groups) == TWINS


def test_three_levels_nest():
    loss = loss_of(pairs_of_classes(), coarse=(3, 2))
    loss(*batch())
    fine, coarse = loss.groups()
    assert parts(fine) == TWINS
    assert len(set(coarse)) == 2
    assert all(coarse[a] == coarse[a + 1] for a in (0, 2, 4))
    tree = loss.tree([f"class {c}" for c in range(CLASSES)])
    assert len(tree["children"]) == 2
    assert sum(len(child["children"]) for child in tree["children"]) == 3


def test_value_is_the_weighted_sum_over_levels():
    loss = loss_of(coarse=(3, 2), level_weights=(1.0, 0.5, 0.25), base="norm_softmax").eval()
    loss.train()
    embeddings, labels = batch()
    value = loss(embeddings, labels)
    total = loss.levels[0](embeddings, labels)
    for depth, groups in enumerate(loss.groups(), start=1):
        coarse_labels = torch.tensor(groups)[labels]
        total = total + 0.5**depth * loss.levels[depth](embeddings, coarse_labels)
    torch.testing.assert_close(value, total)


def test_coarse_proxies_are_the_unit_means_of_their_unit_members():
    loss = loss_of(3 * pairs_of_classes())
    loss(*batch())
    unit = pairs_of_classes()
    (groups,) = loss.groups()
    for g in range(3):
        members = unit[[c for c in range(CLASSES) if groups[c] == g]]
        torch.testing.assert_close(loss.levels[1].proxies.data[g], F.normalize(members.mean(dim=0), dim=0))


@pytest.mark.parametrize(("mode", "trained"), [("free", True), ("means", False), ("constant", False)])
def test_which_proxies_are_trained_and_which_get_gradients(mode, trained):
    loss = loss_of(pairs_of_classes(), coarse_mode=mode)
    loss(*batch()).backward()
    assert loss.levels[1].proxies.requires_grad is trained
    assert (loss.levels[1].proxies.grad is not None) is trained
    alone = loss_of(pairs_of_classes()).proxy_loss
    alone(*batch()).backward()
    extra = (loss.proxies.grad - alone.proxies.grad).abs().max()
    assert (extra > 1e-3) if mode == "means" else (extra < 1e-6)


def test_classes_are_clustered_every_few_iterations_and_only_in_training():
    loss = loss_of(pairs_of_classes(), update_every=3)
    replaced = []
    for step in range(7):
        loss(*batch(step))
        taken = loss.pop_reset_parameters()
        assert all(parameter is loss.levels[1].proxies for parameter in taken)
        replaced.append(len(taken))
    assert replaced == [1, 0, 0, 1, 0, 0, 1]
    loss.eval()
    state = copy.deepcopy(loss.state_dict())
    for step in range(4):
        loss(*batch(step))
    assert loss.pop_reset_parameters() == []
    assert all(torch.equal(state[name], tensor) for name, tensor in loss.state_dict().items())


@pytest.mark.parametrize("mode", ["means", "constant"])
def test_only_free_proxies_are_reported_as_reset(mode):
    loss = loss_of(coarse_mode=mode)
    loss(*batch())
    assert loss.pop_reset_parameters() == []


def test_before_the_first_clustering_only_classes_are_in_the_loss():
    loss = loss_of(start_after=2)
    for step in range(2):
        torch.testing.assert_close(loss(*batch(step)), loss.proxy_loss(*batch(step)))
        with pytest.raises(ArgumentError, match="no groups yet; call the loss in training mode first"):
            loss.groups()
    assert loss(*batch(2)) > loss.proxy_loss(*batch(2))
    assert len(loss.groups()) == 1


def test_a_moved_class_changes_its_group_at_the_next_update():
    proxies = pairs_of_classes()
    loss = loss_of(proxies, update_every=1)
    loss(*batch())
    before = loss.groups()[0]
    proxies[1] = proxies[2] + 0.01 * proxies[0]
    loss.proxies.data = proxies
    loss(*batch())
    after = loss.groups()[0]
    assert parts(after) == {frozenset({0}), frozenset({1, 2, 3}), frozenset({4, 5})}
    assert [before[c] for c in (0, 2, 4)] == [after[c] for c in (0, 2, 4)]  # the warm start keeps the numbers


def test_a_given_hierarchy_is_kept():
    parents = [[0, 1, 2, 0, 1, 2]]
    loss = loss_of(pairs_of_classes(), parents=parents, coarse=None, update_every=1)
    assert loss.groups() == parents
    loss(*batch())
    assert len(loss.pop_reset_parameters()) == 1
    loss.levels[1].proxies.data += 1
    trained = loss.levels[1].proxies.detach().clone()
    loss(*batch())
    assert loss.pop_reset_parameters() == []
    assert torch.equal(loss.levels[1].proxies, trained)
    assert loss.groups() == parents


@pytest.mark.parametrize("mode", ["free", "means", "constant"])
@pytest.mark.parametrize("base", BASES)
def test_every_proxy_loss_is_a_base(base, mode):
    settings = {"neighbor_ratio": 0.75} if base == "proxy_gml" else {}
    loss = loss_of(base={"name": base, "settings": settings}, coarse_mode=mode)
    embeddings, labels = batch()
    embeddings.requires_grad_()
    loss(embeddings, labels).backward()
    assert embeddings.grad.abs().sum() > 0
    assert loss.proxies.grad.abs().sum() > 0
    assert len(loss.proxies) == CLASSES * loss.proxy_loss.proxies_per_class
    assert len(loss.levels[1].proxies) == 3 * loss.proxy_loss.proxies_per_class


@pytest.mark.parametrize("mode", ["free", "means", "constant"])
@pytest.mark.parametrize("base", ["proxy_anchor", "soft_triple", "proxy_nca_pp"])
def test_losses_in_chunks_are_bases_too(base, mode):
    gradients = []
    for form in ("dense", "chunked"):
        loss = loss_of(base=base, coarse_mode=mode).double()
        for level in loss.levels:
            level.form = form
        embeddings, labels = batch()
        embeddings = embeddings.double().requires_grad_()
        loss(embeddings, labels).backward()
        gradients.append((embeddings.grad, loss.proxies.grad))
    for dense, chunked in zip(*gradients, strict=True):
        torch.testing.assert_close(dense, chunked, rtol=1e-9, atol=1e-10)


def test_a_resumed_run_is_the_uninterrupted_one():
    def train(loss, steps):
        optimizer = torch.optim.SGD(loss.parameters(), lr=0.05)
        values = []
        for step in steps:
            optimizer.zero_grad()
            value = loss(*batch(step))
            value.backward()
            optimizer.step()
            values.append(value.item())
        return values

    whole = train(loss_of(update_every=4), range(12))
    first = loss_of(update_every=4)
    values = train(first, range(6))
    second = loss_of(update_every=4, seed=0, generator=torch.Generator().manual_seed(9))
    second.load_state_dict(first.state_dict())
    assert second.groups() == first.groups()
    assert values + train(second, range(6, 12)) == whole


def test_settings_for_single_levels_and_a_ready_base():
    loss = loss_of(level_settings=[{}, {"scale": 8.0, "margin": 0.0}])
    assert [level.scale for level in loss.levels] == [32.0, 8.0]
    ready = ProxyAnchor(CLASSES, DIM, scale=16)
    loss = loss_of(base=ready)
    assert loss.proxy_loss is ready
    assert loss.levels[1].scale == 16
    named = loss_of(base={"name": "norm_softmax", "settings": {"temperature": 0.1}})
    assert isinstance(named.proxy_loss, NormSoftmax)
    assert [level.temperature for level in named.levels] == [0.1, 0.1]


def test_similarities_are_those_of_the_proxies_of_classes():
    loss = loss_of(pairs_of_classes(), base="soft_triple")
    assert loss.similarities(pairs_of_classes()).shape == (6, 60)


@few_examples
@given(seed=st.integers(0, 99), clusters=st.integers(2, 8))
def test_k_means_fills_every_cluster_and_repeats_itself(seed, clusters):
    points = np.random.default_rng(seed).normal(size=(8, 3))
    points[4:] = points[4]  # as few as five distinct ones
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    found = spherical_kmeans(unit, clusters, seed=seed)
    assert set(found) == set(range(clusters))
    assert np.array_equal(found, spherical_kmeans(unit, clusters, seed=seed))


def test_k_means_from_given_centers_keeps_their_order():
    unit = pairs_of_classes().numpy()
    start = unit[[4, 0, 2]]
    assert spherical_kmeans(unit, 3, start_KD=start).tolist() == [1, 1, 2, 2, 0, 0]


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"update_every": 0}, ArgumentError, "update_every is 0; it must be at least 1"),
        ({"coarse_mode": "fixed"}, ArgumentError, "coarse_mode is 'fixed'"),
        (
            {"base": "proxy_anker"},
            UnknownNameError,
            "'proxy_anker'; did you mean 'proxy_anchor'",
        ),
        ({"base": "triplet"}, ArgumentError, "base is a Triplet; every level takes a loss with proxies"),
        ({"base": {"loss": "proxy_nca"}}, ArgumentError, r"base has the keys \['loss'\]; expected name"),
        (
            {"base": LOSSES["triplet"](6, 4)},
            ArgumentError,
            "which has no proxies",
        ),
        (
            {"base": ProxyAnchor(5, 4)},
            ArgumentError,
            "the ready base has 5 classes",
        ),
        ({"level_weights": [1.0]}, ArgumentError, "level_weights has 1 entries; expected one per level, 2"),
        (
            {"base": "soft_triple", "level_settings": [{}, {"centers_per_class": 2}]},
            ArgumentError,
            "level_settings differ in proxies per class",
        ),
    ],
)
def test_invalid_arguments_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        loss_of(**settings)


def test_class_names_must_be_as_many_as_classes():
    loss = loss_of(parents=[[0, 0, 1, 1, 2, 2]], coarse=None)
    with pytest.raises(ArgumentError, match="2 class names are given for 6 classes"):
        loss.tree(["a", "b"])
