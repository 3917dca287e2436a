"""Depthwise convolutions of small maps as matrix products, which a CPU trains several times faster.

The last stages of small networks slide 5 x 5 kernels over maps of 4 x 4 places, where PyTorch's backward pass on a
CPU is far from the arithmetic. Each output place is a sum over input places, so a channel is one matrix:

    y_cO = sum_I M_cOI x_cI,    M_c = sum_k w_ck basis_k,    basis_kOI = 1 where place k of the kernel takes I to O

It is used for training only, where it was measured to be faster (docs/performance.md): on processors with AVX2 but not
AVX-512, kernels of 5 x 5 and more over at most 16 places, or over at most 64 if the activations are not channels-last.
The values are the same up to rounding.
"""

from functools import lru_cache

import torch
from torch import Tensor, nn


def most_places(*, channels_last: bool) -> int:
    """The largest map, in places, that trains faster as products on this machine; 0 where none does."""
    if torch.backends.cpu.get_cpu_capability() != "AVX2":
        return 0
    return 16 if channels_last else 64


class DepthwiseConv2d(nn.Conv2d):
    """A `Conv2d` with a kernel a channel, stride 1 and output as large as its input; the same parameters."""

    def forward(self, x: Tensor) -> Tensor:
        if not self._pays(x):
            return super().forward(x)
        channels, height, width = x.shape[1:]
        basis = _basis(self.kernel_size[0], self.kernel_size[1], height, width, x.dtype)
        matrices_COI = (self.weight.flatten(1) @ basis).view(channels, height * width, height * width)
        places_CBI = x.flatten(2).transpose(0, 1)
        y = torch.bmm(places_CBI, matrices_COI.transpose(1, 2)).transpose(0, 1).reshape(x.shape)
        if self.bias is not None:
            y = y + self.bias[:, None, None]
        if _is_channels_last(x):
            y = y.contiguous(memory_format=torch.channels_last)
        return y

    def _pays(self, x: Tensor) -> bool:
        return (
            x.device.type == "cpu"
            and torch.is_grad_enabled()
            and x.ndim == 4
            and x.shape[2] * x.shape[3] <= most_places(channels_last=_is_channels_last(x))
            and x.dtype == self.weight.dtype
            and (x.requires_grad or self.weight.requires_grad)
        )


def with_small_maps_as_products(network: nn.Module) -> nn.Module:
    """`network` itself, its depthwise convolutions of 5 x 5 and more replaced; parameters keep names and values."""
    for parent in list(network.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Conv2d and _fits(child):
                setattr(parent, name, _replaced(child))
    return network


def _fits(conv: nn.Conv2d) -> bool:
    kernel = conv.kernel_size
    return (
        conv.groups == conv.in_channels == conv.out_channels
        and kernel[0] >= 5
        and kernel[1] >= 5
        and kernel[0] % 2 == kernel[1] % 2 == 1
        and conv.padding == (kernel[0] // 2, kernel[1] // 2)
        and conv.padding_mode == "zeros"
        and conv.stride == (1, 1)
        and conv.dilation == (1, 1)
    )


def _replaced(conv: nn.Conv2d) -> DepthwiseConv2d:
    new = DepthwiseConv2d(
        conv.in_channels,
        conv.out_channels,
        (conv.kernel_size[0], conv.kernel_size[1]),
        padding=(conv.kernel_size[0] // 2, conv.kernel_size[1] // 2),
        groups=conv.groups,
        bias=conv.bias is not None,
        device="meta",  # draws nothing
    )
    new.weight, new.bias = conv.weight, conv.bias
    return new.train(conv.training)


@lru_cache(maxsize=32)
def _basis(rows: int, columns: int, height: int, width: int, dtype: torch.dtype) -> Tensor:
    """(places of the kernel, output places * input places), of zeros and ones."""
    basis = torch.zeros(rows, columns, height, width, height, width, dtype=dtype)
    for row in range(rows):
        for column in range(columns):
            down, right = row - rows // 2, column - columns // 2
            for y in range(max(0, -down), min(height, height - down)):
                for x in range(max(0, -right), min(width, width - right)):
                    basis[row, column, y, x, y + down, x + right] = 1
    return basis.view(rows * columns, -1)


def _is_channels_last(x: Tensor) -> bool:
    return x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
