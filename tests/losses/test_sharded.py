"""One process and several give the same loss and gradients, with replicated and with sharded proxies."""

from itertools import pairwise

import pytest
import torch
from benchmarks.faults.commands import fork_server

from lookalike.errors import ArgumentError
from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import load_sharded
from lookalike.utils.distributed import Processes, global_batch

from . import sharded_worker as worker

SIZES = (2, 3)


@pytest.fixture(scope="module", params=SIZES)
def processes(request, tmp_path_factory):
    """The results of all ranks of a real group of processes (gloo), and the folder with their shards."""
    size, folder = request.param, tmp_path_factory.mktemp(f"processes{request.param}")
    running = [fork_server().Process(target=worker.main, args=(folder, rank, size)) for rank in range(size)]
    for process in running:
        process.start()
    for process in running:
        process.join(timeout=280)
        assert process.exitcode == 0
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(size)], folder


@pytest.mark.parametrize("name", worker.BASES)
@pytest.mark.parametrize("form", ["replicated", "sharded"])
def test_several_processes_equal_one(processes, form, name):
    ranks = [rank["results"][f"{form}/{name}"] for rank in processes[0]]
    one = worker.step("replicated", name, Processes())
    for rank in ranks:
        torch.testing.assert_close(rank["loss"], one["loss"], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(rank["network"], one["network"], rtol=1e-9, atol=1e-11)
    if form == "sharded":
        proxies = [torch.cat([rank["proxies"] for rank in ranks])]
    else:
        proxies = [rank["proxies"] for rank in ranks]
        assert all(torch.equal(gradient, proxies[0]) for gradient in proxies)
    for gradient in proxies:
        torch.testing.assert_close(gradient, one["proxies"], rtol=1e-9, atol=1e-11)


def test_gathering_keeps_the_order_of_ranks_and_uneven_parts(processes):
    expected = [10 * rank + index for rank in range(len(processes[0])) for index in range(rank + 1)]
    assert all(rank["gathered"].tolist() == expected for rank in processes[0])


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_shards_load_on_any_number_of_processes(processes, size):
    whole = Sharded(
        worker.CLASSES, worker.DIM, base=worker.BASES["soft_triple"], generator=worker.start()
    ).proxies.detach()
    parts = []
    for rank in range(size):
        loss = Sharded(
            worker.CLASSES, worker.DIM, base=worker.BASES["soft_triple"], processes=Processes(rank, size)
        )
        parts.append(load_sharded(processes[1] / "state", loss)["loss"]["base.proxies"])
    assert torch.equal(torch.cat(parts), whole)


@pytest.mark.parametrize("rows_drawn", [1, 3, 100])
@pytest.mark.parametrize("size", [2, 3])
def test_shards_start_as_rows_of_one_table_drawn_in_blocks(size, rows_drawn, monkeypatch):
    """At random, and at noisy class means; no process ever holds the proxies of all classes."""
    base, labels = {"name": "soft_triple", "settings": {"centers_per_class": 2}}, torch.arange(20) % 6
    embeddings = torch.randn(20, worker.DIM, generator=worker.start())

    def starts(processes: Processes) -> list[torch.Tensor]:
        loss = Sharded(7, worker.DIM, base=base, processes=processes, generator=worker.start())
        at_random = loss.proxies.detach().clone()
        loss.initialize_proxies_at_class_means(embeddings, labels, worker.start())
        assert loss.proxies.untyped_storage().nbytes() == 4 * at_random.numel()
        return [at_random, loss.proxies.detach()]

    monkeypatch.setattr("lookalike.losses.proxy_init.ROWS_PER_DRAW", rows_drawn)
    whole = starts(Processes())
    parts = [starts(Processes(rank, size)) for rank in range(size)]
    for number in range(2):
        assert torch.equal(torch.cat([part[number] for part in parts]), whole[number])


@pytest.mark.parametrize("name", worker.BASES)
def test_one_process_is_the_base_loss(name):
    sharded, plain = (worker.step(form, name, Processes()) for form in ("sharded", "replicated"))
    for key in ("loss", "network", "proxies"):
        torch.testing.assert_close(sharded[key], plain[key], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("count", "size"), [(11, 1), (11, 2), (11, 3), (7, 7), (1_000_003, 8)])
def test_parts_cover_all_classes_in_order_and_evenly(count, size):
    shares = [Processes(rank, size).share(count) for rank in range(size)]
    assert shares[0][0] == 0
    assert shares[-1][1] == count
    assert all(left[1] == right[0] for left, right in pairwise(shares))
    lengths = [end - first for first, end in shares]
    assert max(lengths) - min(lengths) <= 1


def test_in_one_process_everything_is_the_identity():
    embeddings, labels = torch.randn(3, 2), torch.tensor([0, 1, 1])
    assert global_batch(embeddings, labels) == (embeddings, labels)
    alone = Processes.all()
    assert alone == Processes(0, 1)
    assert alone.sum_(embeddings) is embeddings
    assert alone.maximum_(embeddings) is embeddings
    assert alone.gather(embeddings) is embeddings


def test_refusals():
    with pytest.raises(ArgumentError, match="3 classes cannot be divided over 4 processes"):
        Sharded(3, 2, processes=Processes(0, 4))
    with pytest.raises(ArgumentError, match="ProxyGML"):
        Sharded(30, 2, base="proxy_gml")
