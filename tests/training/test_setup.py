"""What a run chooses for its network."""

import pytest
import torch

from lookalike.models.embedder import build_embedder
from lookalike.training.setup import prefers_contiguous


@pytest.mark.parametrize("capability", ["AVX2", "AVX512", "DEFAULT"])
@pytest.mark.parametrize(("size", "small"), [(96, True), (128, True), (160, False), (224, False)])
def test_contiguous_for_maps_of_up_to_four_places_a_side_without_avx512(size, small, capability, monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    embedder = build_embedder("tf_efficientnet_lite0", weights="none", size=size, embedding_dim=8)
    assert prefers_contiguous(embedder) == (small and capability == "AVX2")
