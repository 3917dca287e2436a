"""TensorFlow's "same" convolutions, without a padded copy of their inputs.

TensorFlow pads a convolution of stride 2 by one row more at the end than at the start; PyTorch pads both ends alike.
timm therefore copies the input into a larger one, which takes a fifth of the time of `tf_efficientnet_lite0` on a CPU.
A zero in front of the kernel gives the same outputs under symmetric padding:

    sum_t w_t x[s i - p + t]  =  sum_t w'_t x[s i - (p + 1) + t],   w' = (0, w_0, ..., w_{k-1})
"""

from timm.layers.conv2d_same import Conv2dSame
from timm.layers.padding import get_same_padding
from torch import Tensor, nn
from torch.nn import functional


class PaddedKernelConv2d(Conv2dSame):  # type: ignore[misc]  # timm has no types
    """timm's `Conv2dSame` with the same parameters and outputs; pads its kernel instead of its input."""

    def forward(self, maps_BCHW: Tensor) -> Tensor:
        """(B, C, H, W) to (B, C', ceil(H / stride), ceil(W / stride))."""
        on_gpu = maps_BCHW.device.type == "cuda"  # which has no fast kernel of these sizes
        if on_gpu or self.dilation != (1, 1):
            outputs: Tensor = super().forward(maps_BCHW)
            return outputs
        sizes = zip(maps_BCHW.shape[2:], self.kernel_size, self.stride, self.dilation, strict=True)
        high, wide = (get_same_padding(*size) for size in sizes)
        weight = functional.pad(self.weight, (wide % 2, 0, high % 2, 0))
        padding = (-(-high // 2), -(-wide // 2))
        return functional.conv2d(
            maps_BCHW, weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


def pad_kernels(network: nn.Module) -> None:
    """Makes every `Conv2dSame` of `network` a `PaddedKernelConv2d`; parameters and their names stay."""
    for module in network.modules():
        if type(module) is Conv2dSame:
            module.__class__ = PaddedKernelConv2d


def pad_inputs(network: nn.Module) -> None:
    """Undoes `pad_kernels`."""
    for module in network.modules():
        if type(module) is PaddedKernelConv2d:
            module.__class__ = Conv2dSame
