"""Tests of lookalike.models.same_padding."""

import itertools

import pytest
import torch
from timm.layers.conv2d_same import Conv2dSame

from lookalike.models.networks import Architecture, create
from lookalike.models.same_padding import PaddedKernelConv2d, pad_inputs, pad_kernels

SHAPES = list(itertools.product((1, 3, 4, 5), (1, 2, 3), (1, 2), ((7, 7), (8, 8), (8, 7), (5, 6))))


@pytest.mark.parametrize(("kernel", "stride", "dilation", "size"), SHAPES)
def test_outputs_and_gradients_are_those_of_a_padded_input(
    kernel: int, stride: int, dilation: int, size: tuple[int, int]
) -> None:
    torch.manual_seed(0)
    convolution = Conv2dSame(4, 6, kernel, stride=stride, dilation=dilation, groups=2).double()
    padded = torch.nn.Sequential(
        Conv2dSame(4, 6, kernel, stride=stride, dilation=dilation, groups=2)
    ).double()
    pad_kernels(padded)
    padded[0].load_state_dict(convolution.state_dict())
    inputs = torch.randn(2, 4, *size, dtype=torch.float64, requires_grad=True)

    expected = convolution(inputs)
    found = padded(inputs)
    weights = torch.randn_like(expected)

    torch.testing.assert_close(found, expected)
    expected_gradients = torch.autograd.grad(expected, [inputs, *convolution.parameters()], weights)
    found_gradients = torch.autograd.grad(found, [inputs, *padded.parameters()], weights)
    torch.testing.assert_close(found_gradients, expected_gradients)


def test_a_network_has_no_copying_convolution_left_and_keeps_its_parameters() -> None:
    network = create(Architecture("tf_efficientnet_lite0"))
    kinds = [type(module) for module in network.modules()]
    assert kinds.count(PaddedKernelConv2d) == 5
    assert Conv2dSame not in kinds
    assert network.state_dict()["conv_stem.weight"].shape == (32, 3, 3, 3)

    pad_inputs(network)
    assert [type(module) for module in network.modules()].count(Conv2dSame) == 5
