"""Small depthwise convolutions as products: the convolution's values and gradients, and only where it pays."""

import pytest
import timm
import torch
from torch import nn

from lookalike.models import depthwise
from lookalike.models.depthwise import DepthwiseConv2d, with_small_maps_as_products


@pytest.fixture(autouse=True)
def avx2(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")


def both(kernel, bias):
    plain = nn.Sequential(
        nn.Conv2d(6, 6, kernel, padding=(kernel[0] // 2, kernel[1] // 2), groups=6, bias=bias)
    ).double()
    ours = nn.Sequential(nn.Conv2d(6, 6, kernel, padding=plain[0].padding, groups=6, bias=bias)).double()
    ours.load_state_dict(plain.state_dict())
    return plain, with_small_maps_as_products(ours)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kernel", [(5, 5), (7, 5)])
@pytest.mark.parametrize("size", [(1, 1), (2, 5), (4, 4), (8, 8), (9, 9)])
def test_values_and_gradients_are_those_of_the_convolution(size, kernel, bias, layout):
    torch.manual_seed(0)
    plain, ours = both(kernel, bias)
    assert type(ours[0]) is DepthwiseConv2d
    x = torch.randn(3, 6, *size, dtype=torch.float64).contiguous(memory_format=layout)
    slopes = torch.randn_like(x)
    results = []
    for module in (plain, ours):
        given = x.clone(memory_format=torch.preserve_format).requires_grad_()
        value = module(given)
        value.backward(slopes)
        results.append([value, given.grad, *(parameter.grad for parameter in module.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-12, atol=1e-12)


def test_products_are_used_in_training_on_small_maps_only(monkeypatch):
    used = []
    basis = depthwise._basis
    monkeypatch.setattr(depthwise, "_basis", lambda *arguments: used.append(arguments) or basis(*arguments))
    conv = with_small_maps_as_products(nn.Sequential(nn.Conv2d(2, 2, 5, padding=2, groups=2)))
    conv(torch.zeros(1, 2, 9, 9))
    with torch.no_grad():
        conv(torch.zeros(1, 2, 4, 4))
    assert not used
    conv(torch.zeros(1, 2, 4, 4))
    assert len(used) == 1
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    conv(torch.zeros(1, 2, 4, 4))
    assert len(used) == 1


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(4, 4, 5, padding=2),
        nn.Conv2d(4, 4, 5, padding=2, groups=2),
        nn.Conv2d(4, 8, 5, padding=2, groups=4),
        nn.Conv2d(4, 4, 3, padding=1, groups=4),
        nn.Conv2d(4, 4, 5, padding=2, groups=4, stride=2),
        nn.Conv2d(4, 4, 5, padding=1, groups=4),
        nn.Conv2d(4, 4, 5, padding=4, groups=4, dilation=2),
    ],
)
def test_other_convolutions_stay(conv):
    assert with_small_maps_as_products(nn.Sequential(conv))[0] is conv


def test_a_network_keeps_its_parameters():
    network = timm.create_model("tf_efficientnet_lite0", num_classes=0)
    before = dict(network.named_parameters())
    with_small_maps_as_products(network)
    assert sum(isinstance(part, DepthwiseConv2d) for part in network.modules()) >= 5
    after = dict(network.named_parameters())
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
