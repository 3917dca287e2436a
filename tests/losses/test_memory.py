"""What dense and chunked forms keep for the backward pass, as the table in docs/losses.md states."""

import pytest
import torch

from lookalike.losses import LOSSES

BATCH, CLASSES, DIM = 128, 1000, 8
KEPT = {  # in matrices of cosines, B x P float32, rounded up to half a one
    "proxy_nca": (2.5, 0.5),
    "proxy_nca_pp": (1.5, 0.5),
    "proxy_anchor": (2.5, 0.5),
    "norm_softmax": (1.5, 0.5),
    "cos_face": (2.5, 0.5),
    "arc_face": (2.5, 0.5),
    "soft_triple": (3.0, 0.5),
    "proxy_gml": (1.0, 1.0),
}


def kept_bytes(name: str, form: str) -> tuple[int, int]:
    """Bytes of distinct tensors saved by the forward pass, and of one matrix of cosines."""
    loss = LOSSES[name](CLASSES, DIM, **({"regularizer_weight": 0} if name == "proxy_gml" else {}))
    loss.form = form
    g = torch.Generator().manual_seed(0)
    embeddings = torch.randn(BATCH, DIM, generator=g, requires_grad=True)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=g)
    storages: dict[int, int] = {}

    def keep(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss(embeddings, labels)
    value.backward()
    return sum(storages.values()), 4 * BATCH * len(loss.proxies)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("form", ["dense", "chunked"])
def test_kept_for_the_backward_pass(name, form):
    kept, cosines = kept_bytes(name, form)
    assert kept <= KEPT[name][form == "chunked"] * cosines
