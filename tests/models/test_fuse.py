"""The copy for inference gives the network's own numbers and leaves the network alone."""

import pytest
import torch

from lookalike.models.embedder import build_embedder
from lookalike.models.fuse import fuse_for_inference


def with_moved_statistics(name):
    """An embedder whose batch norms are far from the identity."""
    embedder = build_embedder(name, weights="none", embedding_dim=8, size=96).eval()
    generator = torch.Generator().manual_seed(1)
    for module in embedder.modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.7, 1.5, generator=generator)
            module.weight.data.uniform_(0.7, 1.3, generator=generator)
            module.bias.data.normal_(0, 0.1, generator=generator)
    return embedder


@pytest.mark.parametrize(
    "name",
    [
        "tf_efficientnet_lite0",
        "resnet18",
        "mobilenetv3_large_100",
        "bn_inception",
        "googlenet",
        "convnext_tiny",
    ],
)
def test_gives_the_same_embeddings(name):
    embedder = with_moved_statistics(name)
    images = torch.randint(
        0, 255, (2, 3, 96, 96), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    with torch.inference_mode():
        expected = embedder(images)
        fast = fuse_for_inference(embedder)
        torch.testing.assert_close(fast(images), expected, rtol=2e-3, atol=2e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "resnet18", "bn_inception"])
def test_folds_every_batch_norm_and_leaves_the_original(name):
    embedder = build_embedder(name, weights="none", embedding_dim=8, size=96)
    before = {key: value.clone() for key, value in embedder.state_dict().items()}
    fast = fuse_for_inference(embedder)
    assert not any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in fast.modules())
    assert embedder.training
    assert not fast.training
    for key, value in embedder.state_dict().items():
        assert torch.equal(value, before[key])
