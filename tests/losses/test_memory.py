"""What dense and chunked forms keep for the backward pass, as docs/explanation/losses_for_many_classes.md states."""

import gc
import weakref

import pytest
import torch

from lookalike.losses import LOSSES

BATCH, CLASSES, DIM = 128, 1000, 8
KEPT = {  # in matrices of similarities, B x P float32
    "proxy_nca": (1.5, 0.1),
    "proxy_nca_pp": (1.5, 0.1),
    "proxy_anchor": (1.5, 0.1),
    "norm_softmax": (1.5, 0.1),
    "cos_face": (1.5, 0.1),
    "arc_face": (1.5, 0.1),
    "soft_triple": (3.0, 0.1),
    "proxy_gml": (1.5, 0.1),
}


class Saved:
    """A tensor that the graph keeps; it lives as long as the graph."""

    def __init__(self, tensor):
        self.tensor = tensor


def kept_bytes(name: str, form: str) -> tuple[int, int]:
    """Bytes that the graph keeps besides the parameters, and of one matrix of similarities."""
    loss = LOSSES[name](CLASSES, DIM, **({"regularizer_weight": 0} if name == "proxy_gml" else {}))
    loss.form = form
    g = torch.Generator().manual_seed(0)
    embeddings = torch.randn(BATCH, DIM, generator=g, requires_grad=True)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=g)
    alive = weakref.WeakSet()

    def keep(tensor):
        saved = Saved(tensor)
        alive.add(saved)
        return saved

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda saved: saved.tensor):
        value = loss(embeddings, labels)
    storages = {s.data_ptr(): s.nbytes() for s in (saved.tensor.untyped_storage() for saved in alive)}
    storages.pop(loss.proxies.data_ptr(), None)
    value.backward()
    return sum(storages.values()), 4 * BATCH * len(loss.proxies)


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("form", ["dense", "chunked"])
def test_kept_for_the_backward_pass(name, form):
    kept, one = kept_bytes(name, form)
    assert kept <= KEPT[name][form == "chunked"] * one


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hierarchical", {"coarse": (50,), "update_every": 50}),
        ("sampled", {"base": "norm_softmax", "fraction": 0.2, "sparse_gradients": True}),
        ("proxy_anchor", {}),
        ("proxy_gml", {"proxies_per_class": 1}),
        ("multi_similarity", {}),
    ],
)
def test_a_step_leaves_no_tensor_behind(name, arguments):
    """The number and size of living tensors are the same after 20 steps as after 10."""
    generator = torch.Generator().manual_seed(0)
    loss = LOSSES[name](400, DIM, **arguments)
    if loss.proxy_loss is not None:
        loss.proxy_loss.form = "chunked"
    embeddings = torch.randn(32, DIM, generator=generator, requires_grad=True)

    def living() -> tuple[int, int]:
        gc.collect()
        tensors = [x for x in gc.get_objects() if type(x) in (torch.Tensor, torch.nn.Parameter)]
        return len(tensors), sum(x.numel() for x in tensors if not x.is_sparse)

    sizes = []
    for _ in range(2):
        for _ in range(10):
            labels = torch.randint(0, 400, (32,), generator=generator)
            embeddings.grad = None
            loss.zero_grad()
            loss(embeddings, labels).backward()
            loss.pop_reset_parameters()
        embeddings.grad = None
        loss.zero_grad()
        sizes.append(living())
    assert sizes[0] == sizes[1]
