import pytest
import torch

from lookalike.errors import ArgumentError, UnknownNameError
from lookalike.losses import Horde, ProxyAnchor


def small(**settings):
    g = torch.Generator().manual_seed(0)
    loss = Horde(3, 4, channels=5, orders=4, moment_channels=6, generator=g, **settings)
    embeddings = torch.randn(7, 4, generator=g)
    return loss, embeddings, torch.arange(7) % 3, torch.randn(7, 5, 2, 3, generator=g)


def test_moments_equal_their_slow_twin():
    """Each place of the map on its own: products of linear maps, their mean, a last linear map."""
    loss, _, _, maps = small()
    lifts = [lift.weight[:, :, 0, 0] for lift in loss.lifts]
    for order, moments in zip((2, 3, 4), loss.moments(maps), strict=True):
        for b in range(7):
            total = torch.zeros(6)
            for y in range(2):
                for x in range(3):
                    product = torch.ones(6)
                    for lift in lifts[:order]:
                        product = product * (lift @ maps[b, :, y, x])
                    total += product
            torch.testing.assert_close(moments[b], loss.heads[order - 2].weight @ (total / 6))


def test_moments_by_hand():
    loss = Horde(2, 1, channels=1, orders=3, moment_channels=1)
    for layer, weight in [(loss.lifts[0], 1.0), (loss.lifts[1], 2.0), (loss.lifts[2], 3.0)]:
        layer.weight.data.fill_(weight)
    for head in loss.heads:
        head.weight.data.fill_(1.0)
    second, third = loss.moments(torch.tensor([[[[1.0, 3.0]]]]))
    assert second.item() == 2 * (1 + 9) / 2
    assert third.item() == 2 * 3 * (1 + 27) / 2


def test_value_is_the_sum_over_orders():
    loss, embeddings, labels, maps = small(base="norm_softmax")
    parts = [loss.order_losses[0](embeddings, labels)]
    for order_loss, x in zip(loss.order_losses[1:], loss.moments(maps), strict=True):
        parts.append(order_loss(x, labels))
    torch.testing.assert_close(loss(embeddings, labels, maps), sum(parts))


def test_every_order_has_its_own_proxies_and_the_map_gets_a_gradient():
    loss, embeddings, labels, maps = small(base={"name": "proxy_anchor", "settings": {"scale": 8}})
    first, second = (order_loss.proxies for order_loss in loss.order_losses[:2])
    assert not torch.equal(first, second)
    assert loss.proxy_loss is loss.order_losses[0]
    assert loss.order_losses[3].scale == 8
    maps.requires_grad_()
    loss(embeddings, labels, maps).backward()
    assert (maps.grad.abs().sum(dim=(1, 2, 3)) > 0).all()
    assert all(parameter.grad is not None for parameter in loss.parameters())


def test_a_ready_base_is_the_first_order():
    base = ProxyAnchor(3, 4)
    loss, *_ = small(base=base)
    assert loss.order_losses[0] is base
    with pytest.raises(ArgumentError, match="the ready base has 3 classes and dimension 5; expected 3 and 4"):
        small(base=ProxyAnchor(3, 5))


def test_high_moments_of_half_precision_do_not_overflow():
    loss, embeddings, labels, maps = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(embeddings, labels, (200 * maps).half())
    assert value.dtype == torch.float32
    assert value.isfinite()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channels": 0}, "channels is 0; it must be at least 1"),
        ({"channels": 5, "orders": 1}, "orders is 1; it must be at least 2"),
    ],
)
def test_invalid_arguments_are_refused(settings, message):
    with pytest.raises(ArgumentError, match=message):
        Horde(3, 4, moment_channels=2, **settings)


def test_maps_of_wrong_shape_and_a_nested_horde_are_refused():
    loss, embeddings, labels, maps = small()
    with pytest.raises(
        ArgumentError, match=r"feature_maps have shape \(7, 4, 2, 3\); expected \(B, 5, h, w\)"
    ):
        loss(embeddings, labels, maps[:, :4])
    inner = {"name": "horde", "settings": {"channels": 5, "moment_channels": 2}}
    with pytest.raises(UnknownNameError, match="unknown loss 'horde'"):
        small(base=inner)
