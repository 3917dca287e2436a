"""One of several processes: a step of every loss with replicated and sharded proxies, results in a file."""

from pathlib import Path

import torch
from torch import Tensor, distributed, nn

from lookalike.losses import LOSSES
from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import save_sharded
from lookalike.utils.distributed import Processes, global_batch

CLASSES, DIM, INPUTS = 11, 4, 6
BASES = {
    "proxy_anchor": {"name": "proxy_anchor"},
    "proxy_anchor, steep": {"name": "proxy_anchor", "settings": {"scale": 300.0}},
    "proxy_nca": {"name": "proxy_nca"},
    "proxy_nca, smoothed": {
        "name": "proxy_nca",
        "settings": {"include_positive": True, "label_smoothing": 0.1, "temperature": 0.1},
    },
    "norm_softmax": {"name": "norm_softmax"},
    "norm_softmax, steep": {"name": "norm_softmax", "settings": {"temperature": 0.01}},
    "arc_face": {"name": "arc_face"},
    "soft_triple": {"name": "soft_triple", "settings": {"centers_per_class": 3}},
}
LABELS = [0, 5, 10, 5, 2, 7, 7, 10, 3]


def whole_batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(len(LABELS), INPUTS, generator=generator).double(), torch.tensor(LABELS)


def network() -> nn.Linear:
    layer = nn.Linear(INPUTS, DIM, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(DIM, INPUTS, generator=torch.Generator().manual_seed(1)))
    return layer.double()


def start() -> torch.Generator:
    return torch.Generator().manual_seed(2)


def step(form: str, name: str, processes: Processes) -> dict[str, Tensor]:
    """Loss, gradient of the network averaged over processes, and gradient of the proxies at hand."""
    inputs, labels = whole_batch()
    # uneven on purpose: the first process has more samples than the others
    first, end = (0, 5) if processes.rank == 0 else (5, 5)
    if processes.rank > 0:
        shares = torch.linspace(5, len(labels), processes.size).long().tolist()
        first, end = shares[processes.rank - 1], shares[processes.rank]
    if processes.size == 1:
        first, end = 0, len(labels)
    layer, base = network(), BASES[name]
    if form == "sharded":
        loss = Sharded(CLASSES, DIM, base=base, processes=processes, generator=start())
    else:
        loss = LOSSES[base["name"]](CLASSES, DIM, **base.get("settings", {}), generator=start())
    loss.double()
    value = loss(*global_batch(layer(inputs[first:end]), labels[first:end], processes=processes))
    value.backward()
    gradient = processes.sum_(layer.weight.grad / processes.size)
    return {"loss": value.detach(), "network": gradient, "proxies": loss.proxies.grad}


def main(folder: Path, rank: int, size: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    processes = Processes.all()
    assert (processes.rank, processes.size) == (rank, size)
    results = {
        f"{form}/{name}": step(form, name, processes) for form in ("replicated", "sharded") for name in BASES
    }
    uneven = processes.gather(torch.arange(rank + 1) + 10 * rank)
    saved = Sharded(CLASSES, DIM, base=BASES["soft_triple"], processes=processes, generator=start())
    state = {"loss": saved.state_dict(), "optimizers": [{}, {"state": {}, "param_groups": []}]}
    save_sharded(folder / "state", state, saved, name="saved")
    torch.save({"results": results, "gathered": uneven}, folder / f"{rank}.pt")
    distributed.destroy_process_group()
