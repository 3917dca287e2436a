"""Row-sparse AdamW against torch's dense one, where they agree, and where they do not."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from lookalike.errors import ArgumentError
from lookalike.losses.sharded import Sharded
from lookalike.optim.row_sparse import RowSparseAdamW
from lookalike.training.sharded_state import load_sharded, save_sharded

ROWS, DIM = 7, 3


def gradients(steps: int, share: float) -> list[Tensor]:
    """Dense gradients in which a row is idle with probability 1 - share."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for _ in range(steps):
        alive = torch.rand(ROWS, 1, generator=generator) < share
        made.append(torch.randn(ROWS, DIM, generator=generator, dtype=torch.float64) * alive)
    return made


def as_sparse(gradient: Tensor) -> Tensor:
    rows = (gradient != 0).any(dim=1).nonzero()[:, 0]
    return torch.sparse_coo_tensor(rows[None], gradient[rows], gradient.shape, check_invariants=True)


def as_sparse_twice(gradient: Tensor) -> Tensor:
    """The same, with every row given in two halves, in no order."""
    rows = (gradient != 0).any(dim=1).nonzero()[:, 0].flip(0)
    halves = torch.cat([gradient[rows] / 4, gradient[rows] * 0.75])
    both = torch.cat([rows, rows])[None]
    return torch.sparse_coo_tensor(both, halves, gradient.shape, check_invariants=True)


def start() -> nn.Parameter:
    return nn.Parameter(torch.arange(ROWS * DIM, dtype=torch.float64).view(ROWS, DIM).sin())


def run(make, steps: list[Tensor], *, shape=lambda gradient: gradient, rates=None) -> Tensor:
    parameter = start()
    optimizer = make([parameter])
    for index, gradient in enumerate(steps):
        if rates:
            optimizer.param_groups[0]["lr"] = rates[index]
        parameter.grad = shape(gradient)
        optimizer.step()
    if hasattr(optimizer, "catch_up"):
        optimizer.catch_up()
    return parameter.detach()


SHAPES = {"dense": lambda gradient: gradient.clone(), "sparse": as_sparse, "uncoalesced": as_sparse_twice}


@pytest.mark.parametrize("shape", SHAPES)
def test_adamw_equals_torch_when_every_row_has_a_gradient(shape):
    settings = {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.3}
    steps = gradients(12, 1.0)
    dense = run(lambda params: torch.optim.AdamW(params, **settings), steps)
    ours = run(lambda params: RowSparseAdamW(params, **settings), steps, shape=SHAPES[shape])
    torch.testing.assert_close(ours, dense, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_adamw_without_momentum_equals_torch_with_idle_rows_and_a_schedule(shape):
    settings = {"lr": 0.1, "betas": (0.0, 0.9), "weight_decay": 0.3}
    steps, rates = gradients(30, 0.3), [0.1 * 0.9**step for step in range(30)]
    dense = run(lambda params: torch.optim.AdamW(params, **settings), steps, rates=rates)
    ours = run(lambda params: RowSparseAdamW(params, **settings), steps, shape=SHAPES[shape], rates=rates)
    torch.testing.assert_close(ours, dense, rtol=1e-12, atol=1e-12)


def test_adamw_leaves_rows_without_gradient_and_shrinks_their_moments():
    """One gradient, nine idle steps, hand-computed moments; the other rows never move."""
    parameter = start()
    before = parameter.detach().clone()
    optimizer = RowSparseAdamW([parameter], lr=0.1, betas=(0.9, 0.99), weight_decay=0.0)
    first = torch.zeros(ROWS, DIM, dtype=torch.float64)
    first[2] = 1
    parameter.grad = as_sparse(first)
    optimizer.step()
    moved = parameter.detach().clone()
    torch.testing.assert_close(moved[2], before[2] - 0.1, rtol=1e-6, atol=1e-6)
    for _ in range(9):
        parameter.grad = as_sparse(torch.zeros_like(first))
        optimizer.step()
    optimizer.catch_up()
    assert torch.equal(parameter.detach(), moved)
    state = optimizer.state[parameter]
    assert float(state["exp_avg"][2, 0]) == pytest.approx(0.1 * 0.9**9)
    assert float(state["exp_avg_sq"][2, 0]) == pytest.approx(0.01 * 0.99**9)
    assert not state["exp_avg"][[0, 1, 3, 4, 5, 6]].any()


def test_one_second_moment_per_row_keeps_the_direction():
    parameter = start()
    before = parameter.detach().clone()
    optimizer = RowSparseAdamW([parameter], lr=0.1, weight_decay=0.0, second_moment="row")
    gradient = gradients(1, 1.0)[0]
    parameter.grad = gradient.clone()
    optimizer.step()
    moved = before - parameter.detach()
    root = gradient.square().mean(dim=1, keepdim=True).sqrt()
    torch.testing.assert_close(moved, 0.1 * gradient / root, rtol=1e-6, atol=1e-6)
    assert optimizer.state[parameter]["exp_avg_sq"].shape == (ROWS, 1)


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 100])
def test_any_block_size_gives_the_same(rows_at_a_time, monkeypatch):
    steps = gradients(8, 0.6)

    def make(params):
        return RowSparseAdamW(params, lr=0.1)

    whole = run(make, steps, shape=as_sparse)
    monkeypatch.setattr("lookalike.optim.row_sparse.ROWS_AT_A_TIME", rows_at_a_time)
    torch.testing.assert_close(run(make, steps, shape=as_sparse), whole, rtol=1e-14, atol=1e-14)


def test_a_resumed_run_continues_as_if_never_stopped():
    steps = gradients(10, 0.5)
    whole = run(lambda params: RowSparseAdamW(params, lr=0.1), steps, shape=as_sparse)
    parameter = start()
    optimizer = RowSparseAdamW([parameter], lr=0.1)
    for index, gradient in enumerate(steps):
        if index == 5:
            saved = optimizer.state_dict()
            optimizer = RowSparseAdamW([parameter], lr=0.1)
            optimizer.load_state_dict(saved)
        parameter.grad = as_sparse(gradient)
        optimizer.step()
    optimizer.catch_up()
    torch.testing.assert_close(parameter.detach(), whole, rtol=1e-14, atol=1e-14)


HALF = {"lr": 0.1, "betas": (0.8, 0.95), "weight_decay": 0.3, "first_moment": "bfloat16"}


def test_a_bfloat16_moment_equals_its_slow_twin():
    """Dense steps of a float64 moment that is rounded when stored; the step itself takes it unrounded."""
    (beta1, beta2), lr = HALF["betas"], HALF["lr"]
    slow, first, second = start().detach(), torch.zeros(ROWS, DIM).double(), torch.zeros(ROWS, DIM).double()
    steps = gradients(12, 1.0)
    for step, gradient in enumerate(steps, start=1):
        first = beta1 * first + (1 - beta1) * gradient
        second = beta2 * second + (1 - beta2) * gradient**2
        length = (second / (1 - beta2**step)).sqrt() + 1e-8
        slow = slow * (1 - lr * HALF["weight_decay"]) - lr * first / (1 - beta1**step) / length
        first = first.bfloat16().double()
    ours = run(lambda params: RowSparseAdamW(params, **HALF), steps, shape=as_sparse)
    torch.testing.assert_close(ours, slow, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("second_moment", ["element", "row"])
def test_a_bfloat16_moment_ends_near_the_full_one(second_moment):
    """200 steps, each row in three of ten, with a pull of its own in the noise: within 1 % of the way gone."""
    settings = {"lr": 0.01, "second_moment": second_moment}
    steps = [gradient + 0.3 * (gradient != 0) * start().detach() for gradient in gradients(200, 0.3)]
    full = run(lambda params: RowSparseAdamW(params, **settings), steps, shape=as_sparse)
    half = run(
        lambda params: RowSparseAdamW(params, **settings, first_moment="bfloat16"), steps, shape=as_sparse
    )
    assert 0 < (half - full).norm() < 0.01 * (full - start().detach()).norm()


def test_a_bfloat16_moment_follows_a_constant_gradient_as_far_as_stated():
    parameter = start()
    optimizer = RowSparseAdamW([parameter], lr=0.0, first_moment="bfloat16")
    gradient = gradients(1, 1.0)[0]
    for _ in range(200):
        parameter.grad = gradient
        optimizer.step()
    moment = optimizer.state[parameter]["exp_avg"].double()
    assert (1 - moment / gradient).abs().max() < 1 / (256 * (1 - 0.9))


def test_a_bfloat16_moment_of_an_idle_row_fades():
    parameter = start()
    optimizer = RowSparseAdamW([parameter], lr=0.1, first_moment="bfloat16")
    for gradient in [torch.ones(ROWS, DIM).double(), *[torch.zeros(ROWS, DIM).double()] * 9]:
        parameter.grad = as_sparse(gradient)
        optimizer.step()
    optimizer.catch_up()
    moment = optimizer.state[parameter]["exp_avg"]
    assert moment.dtype == torch.bfloat16
    torch.testing.assert_close(
        moment.double(), torch.full_like(parameter, 0.1 * 0.9**9), rtol=2 / 256, atol=0
    )


def started(first_moment: str) -> tuple[nn.Parameter, RowSparseAdamW]:
    """Five steps, in which some rows are idle."""
    parameter = start()
    optimizer = RowSparseAdamW([parameter], lr=0.1, first_moment=first_moment)
    for gradient in gradients(5, 0.5):
        parameter.grad = as_sparse(gradient)
        optimizer.step()
    return parameter, optimizer


@pytest.mark.parametrize("first_moment", ["full", "bfloat16"])
def test_a_loaded_state_has_the_same_bits(first_moment):
    parameter, optimizer = started(first_moment)
    again = RowSparseAdamW([nn.Parameter(parameter.detach().clone())], lr=0.3, first_moment=first_moment)
    again.load_state_dict(optimizer.state_dict())
    assert again.param_groups[0]["lr"] == 0.1
    ours, theirs = again.state[again.param_groups[0]["params"][0]], optimizer.state[parameter]
    assert ours["missed"].dtype == torch.int32
    for name, value in theirs.items():
        assert ours[name].dtype == value.dtype
        assert torch.equal(ours[name], value)


def test_a_bfloat16_moment_goes_through_the_files_of_sharded_proxies(tmp_path):
    loss = Sharded(ROWS, DIM, generator=torch.Generator().manual_seed(0))
    optimizer = RowSparseAdamW([loss.proxies], first_moment="bfloat16")
    for gradient in gradients(5, 0.5):
        loss.proxies.grad = gradient.float()
        optimizer.step()
    state = {"loss": loss.state_dict(), "optimizers": [{}, optimizer.state_dict()]}
    save_sharded(tmp_path / "last", state, loss, name="epoch-1")
    again = RowSparseAdamW([loss.proxies], first_moment="bfloat16")
    again.load_state_dict(load_sharded(tmp_path / "last", loss)["optimizers"][1])
    for name, value in optimizer.state[loss.proxies].items():
        assert again.state[loss.proxies][name].dtype == value.dtype
        assert torch.equal(again.state[loss.proxies][name], value)


def test_training_proxies_alone_loads_neither_a_compiler_nor_scipy():
    """250 MB, which would be a sixth of the memory of a step of a million classes."""
    code = """
import sys, torch
from lookalike.losses import Sampled
from lookalike.optim.row_sparse import RowSparseAdamW
loss = Sampled(1000, 8, fraction=0.1, sparse_gradients=True)
optimizer = RowSparseAdamW(loss.parameters())
optimizer.zero_grad()
loss(torch.randn(4, 8), torch.arange(4)).backward()
optimizer.step()
print([name for name in ("torch._dynamo", "sympy", "scipy", "sklearn") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_closures_and_parameters_without_gradient():
    parameter, idle = start(), start()
    optimizer = RowSparseAdamW([parameter, idle], lr=0.1, weight_decay=0.0)

    def closure() -> float:
        optimizer.zero_grad()
        value = parameter.square().sum() / 2
        value.backward()
        return float(value.detach())

    before = float(start().detach().square().sum() / 2)
    assert math.isclose(optimizer.step(closure), before)
    moved = start().detach() - 0.1 * start().detach().sign()
    torch.testing.assert_close(parameter.detach(), moved, rtol=1e-6, atol=1e-6)
    assert torch.equal(idle.detach(), start().detach())
    optimizer.catch_up()


def test_refusals():
    with pytest.raises(ArgumentError, match=r"shape \(3,\)"):
        RowSparseAdamW([nn.Parameter(torch.zeros(3))], lr=0.1)
    with pytest.raises(ArgumentError, match="second_moment"):
        RowSparseAdamW([start()], second_moment="rows")
    with pytest.raises(ArgumentError, match="first_moment"):
        RowSparseAdamW([start()], first_moment="float16")
    with pytest.raises(ArgumentError, match=r"beta1 is 0.99 .* lower beta1 to 0.95"):
        RowSparseAdamW([start()], betas=(0.99, 0.999), first_moment="bfloat16")
