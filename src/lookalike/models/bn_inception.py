"""Inception with batch norm ("BN-Inception", Inception v2): the backbone of most of the papers.

Source: Ioffe and Szegedy 2015, in the form that was converted from Caffe and that the field fine-tunes. Weights of
the commonly used file `bn_inception-52deb4733.pth` load under the names that they have there (`rename`). Images
go in as BGR on the 0-255 scale with (104, 117, 128) subtracted.

The widely copied code of this network applies `ReLU(inplace=True)` and continues with the batch norm's output under
its old name, which looks as if the ReLU were skipped; dropping `inplace` there removes every ReLU. Here each
convolution is followed by batch norm and ReLU in one module, the `Unit`.

The network is the table below. Every block has up to four branches, concatenated in this order: 1x1; 3x3 after a
1x1; two 3x3 after a 1x1 ("double"); pooling, with a 1x1 unless the block halves the map.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class BlockPlan:
    """Channels of one block: `point` 0 means no 1x1 branch, `projection` 0 that the pooled map passes."""

    name: str
    point: int
    single: tuple[int, int]
    double: tuple[int, int]
    pool: Literal["average", "maximum"]
    projection: int
    stride: int = 1

    @property
    def channels_out(self) -> int:
        """Channels after the block, less those that pass through the pooling of a halving block."""
        return self.point + self.single[1] + self.double[1] + self.projection


PLAN = (
    BlockPlan("3a", 64, (64, 64), (64, 96), "average", 32),
    BlockPlan("3b", 64, (64, 96), (64, 96), "average", 64),
    BlockPlan("3c", 0, (128, 160), (64, 96), "maximum", 0, stride=2),
    BlockPlan("4a", 224, (64, 96), (96, 128), "average", 128),
    BlockPlan("4b", 192, (96, 128), (96, 128), "average", 128),
    BlockPlan("4c", 160, (128, 160), (128, 160), "average", 128),
    BlockPlan("4d", 96, (128, 192), (160, 192), "average", 128),
    BlockPlan("4e", 0, (128, 192), (192, 256), "maximum", 0, stride=2),
    BlockPlan("5a", 352, (192, 320), (160, 224), "average", 128),
    BlockPlan("5b", 352, (192, 320), (192, 224), "maximum", 128),
)


class Unit(nn.Module):
    """ReLU(batch norm(convolution)); `name` is that of its convolution in the common weights file."""

    def __init__(self, name: str, before: int, after: int, *, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.name = name
        self.convolution = nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2)
        self.norm = nn.BatchNorm2d(after)

    def forward(self, maps_BFHW: Tensor) -> Tensor:
        return functional.relu(self.norm(self.convolution(maps_BFHW)))


class Block(nn.Module):
    """The branches of one `BlockPlan`, concatenated over channels."""

    def __init__(self, plan: BlockPlan, branches: list[nn.Sequential], projection: nn.Module | None) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.projection = projection
        self._plan = plan

    def forward(self, maps_BFHW: Tensor) -> Tensor:
        return torch.cat([*(branch(maps_BFHW) for branch in self.branches), self._pooled(maps_BFHW)], dim=1)

    def _pooled(self, maps_BFHW: Tensor) -> Tensor:
        if self._plan.stride == 2:
            # even maps as in the original; odd maps, on which the original fails, are padded
            odd = (maps_BFHW.shape[2] % 2, maps_BFHW.shape[3] % 2)
            return functional.max_pool2d(maps_BFHW, 3, stride=2, padding=odd, ceil_mode=True)
        assert self.projection is not None
        if self._plan.pool == "average":
            pooled = functional.avg_pool2d(maps_BFHW, 3, stride=1, padding=1)
        else:
            pooled = functional.max_pool2d(maps_BFHW, 3, stride=1, padding=1)
        out: Tensor = self.projection(pooled)
        return out


class BNInception(nn.Module):
    """Images (B, 3, H, W), already in its own BGR scale, to feature maps (B, 1024, H/32, W/32)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Sequential(
            Unit("conv1_7x7_s2", 3, 64, kernel=7, stride=2), nn.MaxPool2d(3, stride=2, ceil_mode=True)
        )
        self.conv2 = nn.Sequential(
            Unit("conv2_3x3_reduce", 64, 64, kernel=1),
            Unit("conv2_3x3", 64, 192, kernel=3),
            nn.MaxPool2d(3, stride=2, ceil_mode=True),
        )
        blocks: list[Block] = []
        channels = 192
        for plan in PLAN:
            blocks.append(_block(plan, channels))
            channels = plan.channels_out + (channels if plan.stride == 2 else 0)
        self.blocks = nn.Sequential(*blocks)
        self.num_features = channels

    def forward(self, images_BCHW: Tensor) -> Tensor:
        maps: Tensor = self.blocks(self.conv2(self.conv1(images_BCHW)))
        return maps

    def rename(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors under this network's names, where they have those of the common weights file."""
        names = {}
        for path, unit in self.named_modules():
            if isinstance(unit, Unit):
                names[unit.name] = f"{path}.convolution"
                names[f"{unit.name}_bn"] = f"{path}.norm"
        pairs = ((key.rpartition("."), value) for key, value in tensors.items())
        return {f"{names.get(where, where)}{dot}{what}": value for (where, dot, what), value in pairs}


def _block(plan: BlockPlan, channels: int) -> Block:
    name, stride = f"inception_{plan.name}", plan.stride
    branches = []
    if plan.point:
        branches.append(nn.Sequential(Unit(f"{name}_1x1", channels, plan.point, kernel=1)))
    narrow, wide = plan.single
    branches.append(
        nn.Sequential(
            Unit(f"{name}_3x3_reduce", channels, narrow, kernel=1),
            Unit(f"{name}_3x3", narrow, wide, kernel=3, stride=stride),
        )
    )
    narrow, wide = plan.double
    branches.append(
        nn.Sequential(
            Unit(f"{name}_double_3x3_reduce", channels, narrow, kernel=1),
            Unit(f"{name}_double_3x3_1", narrow, wide, kernel=3),
            Unit(f"{name}_double_3x3_2", wide, wide, kernel=3, stride=stride),
        )
    )
    projection = None
    if plan.projection:
        projection = Unit(f"{name}_pool_proj", channels, plan.projection, kernel=1)
    return Block(plan, branches, projection)
