"""The training state of sharded proxies: which tensors are divided by class, and how their files are read again."""

import errno

import pytest
import torch

from lookalike.errors import FileError
from lookalike.losses.sharded import Sharded
from lookalike.training.sharded_state import load_sharded, save_sharded
from lookalike.utils.distributed import Processes
from lookalike.utils.tensor_file import load_tensors


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
    assert sorted(load_tensors(rows)) == [
        "/loss/base.proxies",
        "/optimizer/state/0/exp_avg",
        "/optimizer/state/0/missed",
    ]
    loaded = load_sharded(tmp_path / "state", loss)
    assert torch.equal(loaded["loss"]["base.proxies"], loss.proxies.detach())
    assert torch.equal(loaded["loss"]["temperature"], torch.arange(3.0))


def a_loss():
    return Sharded(7, 2, processes=Processes(), generator=torch.Generator().manual_seed(0))


def save(folder, loss):
    state = {"loss": loss.state_dict(), "optimizers": [{}, {"state": {}, "param_groups": []}]}
    save_sharded(folder / "state", state, loss, name="epoch-1")
    (file,) = (folder / "state-epoch-1").iterdir()
    return file


def test_a_damaged_or_missing_file_of_rows_is_refused(tmp_path):
    loss = a_loss()
    file = save(tmp_path, loss)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(FileError, match=r"classes-0.safetensors' is damaged"):
        load_sharded(tmp_path / "state", loss)
    file.unlink()
    with pytest.raises(FileError, match=r"classes-0.safetensors"):
        load_sharded(tmp_path / "state", loss)


def test_a_full_disk_leaves_the_previous_state(tmp_path, monkeypatch):
    loss = a_loss()
    save(tmp_path, loss)
    before = loss.proxies.detach().clone()

    def full(tensors, file, metadata=None):
        file.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("lookalike.utils.tensor_file.save_file", full)
    loss.proxies.data += 1
    state = {"loss": loss.state_dict(), "optimizers": [{}, {"state": {}, "param_groups": []}]}
    with pytest.raises(FileError, match=r"classes-0.safetensors': No space left"):
        save_sharded(tmp_path / "state", state, loss, name="epoch-2")
    assert torch.equal(load_sharded(tmp_path / "state", loss)["loss"]["base.proxies"], before)
    assert list((tmp_path / "state-epoch-2").iterdir()) == []
