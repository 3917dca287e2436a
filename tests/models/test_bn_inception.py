"""BN-Inception: its names and shapes, the ReLU after every batch norm, and its input scale."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from lookalike.errors import FileError
from lookalike.models import build_embedder
from lookalike.models.backbones import CAFFE
from lookalike.models.bn_inception import PLAN, BNInception, Unit


def file_names(network):
    """Names of the network's tensors in the common weights file."""
    names = {}
    for path, unit in network.named_modules():
        if isinstance(unit, Unit):
            names |= {f"{path}.convolution": unit.name, f"{path}.norm": f"{unit.name}_bn"}
    return {key: f"{names[key.rpartition('.')[0]]}.{key.rpartition('.')[2]}" for key in network.state_dict()}


def test_names_are_those_of_the_common_weights_file():
    names = set(file_names(BNInception()).values())
    for name in (
        "conv1_7x7_s2.weight",
        "conv1_7x7_s2.bias",
        "conv1_7x7_s2_bn.running_mean",
        "conv2_3x3_reduce.weight",
        "conv2_3x3_bn.weight",
        "inception_3a_1x1.weight",
        "inception_3a_1x1_bn.bias",
        "inception_3b_3x3_reduce_bn.running_var",
        "inception_3c_double_3x3_2.weight",
        "inception_4d_pool_proj.weight",
        "inception_4e_3x3.weight",
        "inception_5b_pool_proj_bn.weight",
    ):
        assert name in names
    assert not {"inception_3c_1x1.weight", "inception_4e_pool_proj.weight"} & names
    convolutions = [name for name in names if name.endswith(".weight") and f"{name[:-7]}_bn.weight" in names]
    assert len(convolutions) == 69


def test_shapes_of_maps_at_224():
    network = BNInception().eval()
    maps, seen = torch.zeros(1, 3, 224, 224), []
    with torch.no_grad():
        for stage in (network.conv1, network.conv2, *network.blocks):
            maps = stage(maps)
            seen.append(tuple(maps.shape[1:]))
    assert seen == [
        (64, 56, 56),
        (192, 28, 28),
        (256, 28, 28),
        (320, 28, 28),
        (576, 14, 14),
        (576, 14, 14),
        (576, 14, 14),
        (608, 14, 14),
        (608, 14, 14),
        (1056, 7, 7),
        (1024, 7, 7),
        (1024, 7, 7),
    ]
    assert sum(p.numel() for p in network.parameters()) == 11_295_240 - 1025 * 1000


@pytest.mark.parametrize(("size", "side"), [(112, 4), (227, 7), (256, 8), (75, 3)])
def test_other_input_sizes(size, side):
    with torch.no_grad():
        maps = BNInception().eval()(torch.zeros(1, 3, size, size))
    assert maps.shape == (1, 1024, side, side)


def slow_forward(network, x):
    """The same network by the names of its parameters, written out layer by layer."""

    units = {unit.name: unit for unit in network.modules() if isinstance(unit, Unit)}

    def unit(x, name, stride=1):
        convolution, norm = units[name].convolution, units[name].norm
        x = functional.conv2d(
            x, convolution.weight, convolution.bias, stride, padding=convolution.weight.shape[-1] // 2
        )
        x = functional.batch_norm(
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
        return torch.where(x > 0, x, torch.zeros_like(x))

    x = functional.max_pool2d(unit(x, "conv1_7x7_s2", 2), 3, 2, ceil_mode=True)
    x = functional.max_pool2d(unit(unit(x, "conv2_3x3_reduce"), "conv2_3x3"), 3, 2, ceil_mode=True)
    for plan in PLAN:
        name = f"inception_{plan.name}"
        halving = plan.name in ("3c", "4e")
        stride = 2 if halving else 1
        parts = [] if halving else [unit(x, f"{name}_1x1")]
        parts.append(unit(unit(x, f"{name}_3x3_reduce"), f"{name}_3x3", stride))
        double = unit(unit(x, f"{name}_double_3x3_reduce"), f"{name}_double_3x3_1")
        parts.append(unit(double, f"{name}_double_3x3_2", stride))
        if halving:
            parts.append(functional.max_pool2d(x, 3, 2, ceil_mode=True))
        else:
            largest = plan.name == "5b"
            pooled = functional.max_pool2d(x, 3, 1, 1) if largest else functional.avg_pool2d(x, 3, 1, 1)
            parts.append(unit(pooled, f"{name}_pool_proj"))
        x = torch.cat(parts, dim=1)
    return x


@pytest.fixture
def network():
    torch.manual_seed(0)
    network = BNInception().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.bias, std=0.5)
            nn.init.normal_(module.running_mean, std=0.1)
    return network


def test_equals_the_written_out_network(network):
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(network(images), slow_forward(network, images), atol=1e-4, rtol=1e-4)


def test_relu_follows_every_batch_norm(network):
    """The trap: without in-place ReLU, code that goes on with the batch norm's output loses all ReLUs."""
    raw, inputs = [], []
    for name, module in network.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_hook(lambda module, args, output: raw.append(float(output.min())))
        if isinstance(module, nn.Conv2d) and name != "conv1.0.convolution":
            module.register_forward_hook(lambda module, args, output: inputs.append(float(args[0].min())))
    with torch.no_grad():
        network(torch.randn(1, 3, 64, 64))
    assert len(raw) == 69
    assert max(raw) < 0, "every batch norm gave something for its ReLU to remove"
    assert min(inputs) >= 0, "no convolution after the first ever sees a negative value"


def test_input_is_bgr_on_the_0_255_scale():
    red = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    red[:, 0] = 255
    seen = CAFFE.normalize(red)[0, :, 0, 0]
    torch.testing.assert_close(seen, torch.tensor([-104.0, -117.0, 255.0 - 128.0]), atol=1e-4, rtol=0)


def test_old_files_load(tmp_path):
    """Without counters of batch norm and with batch norm tensors of shape (1, F)."""
    source = BNInception()
    names = file_names(source)
    tensors = {names[key]: value for key, value in source.state_dict().items() if not key.endswith("tracked")}
    tensors = {name: value[None] if "_bn." in name else value for name, value in tensors.items()}
    tensors |= {"last_linear.weight": torch.zeros(10, 1024), "last_linear.bias": torch.zeros(10)}
    torch.save(tensors, tmp_path / "bn_inception.pth")
    embedder = build_embedder("bn_inception", weights=tmp_path / "bn_inception.pth", pooling="average")
    loaded = embedder.backbone.state_dict()
    assert all(
        torch.equal(loaded[key], value)
        for key, value in source.state_dict().items()
        if not key.endswith("tracked")
    )
    del tensors["inception_5b_1x1.weight"]
    torch.save(tensors, tmp_path / "bn_inception.pth")
    with pytest.raises(FileError, match=r"1 missing: blocks\.9\.branches\.0\.0\.convolution\.weight"):
        build_embedder("bn_inception", weights=tmp_path / "bn_inception.pth")
