"""Which tensors of a training state are divided by class."""

import torch

from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import load_sharded, save_sharded
from lookalike.utils.distributed import Processes


def test_only_the_proxies_and_their_moments_are_rows_of_classes(tmp_path):
    """Three classes in three dimensions: any other tensor of length 3 stays whole."""
    loss = Sharded(3, 3, processes=Processes())
    moments = {"exp_avg": torch.ones(3, 3), "missed": torch.arange(3), "step": torch.tensor(5)}
    other = {"exp_avg": torch.arange(3.0)}  # of a parameter that is not the proxies
    state = {
        "epoch": 1,
        "loss": {**loss.state_dict(), "temperature": torch.arange(3.0)},
        "optimizers": [{}, {"state": {0: moments, 1: other}, "param_groups": []}],
    }
    save_sharded(tmp_path / "state", state, loss, name="epoch-1")
    (rows,) = (tmp_path / "state-epoch-1").glob("*.safetensors")
    from safetensors.torch import load_file

    assert sorted(load_file(rows)) == [
        "/loss/base.proxies",
        "/optimizer/state/0/exp_avg",
        "/optimizer/state/0/missed",
    ]
    loaded = load_sharded(tmp_path / "state", loss)
    assert torch.equal(loaded["loss"]["base.proxies"], loss.proxies.detach())
    assert torch.equal(loaded["loss"]["temperature"], torch.arange(3.0))
