"""What a run chooses for its network."""

import pytest

from lookalike.job import has_small_maps
from lookalike.models.embedder import build_embedder


@pytest.mark.parametrize(("size", "small"), [(96, True), (128, True), (160, False), (224, False)])
def test_maps_are_small_up_to_four_places_a_side(size, small):
    embedder = build_embedder("tf_efficientnet_lite0", weights="none", size=size, embedding_dim=8)
    assert has_small_maps(embedder) == small
