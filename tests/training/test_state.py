"""Trees of tensors survive the disk, and an interrupted write leaves the older one."""

import pytest
import torch

from lookalike.errors import FileError
from lookalike.training.tensor_tree import load_tree, save_tree
from lookalike.utils.io import write_atomically

TREE = {
    "epoch": 3,
    "name": "größe",
    "best": 0.1 + 0.2,
    "nothing": None,
    "flag": True,
    "history": [{"loss": 1.5, "steps": [1, 2]}],
    "moments": {0: {"m": torch.arange(6.0).reshape(2, 3)}, 1: {"m": torch.tensor(2, dtype=torch.int64)}},
}


def assert_same(one, other):
    if isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
        assert one.dtype == other.dtype
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list):
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other
        assert type(one) is type(other)


def test_round_trip_keeps_values_types_and_integer_keys(tmp_path):
    save_tree(tmp_path / "state", TREE)
    assert_same(load_tree(tmp_path / "state"), TREE)


def test_saving_again_replaces_and_leaves_one_pair_of_files(tmp_path):
    for epoch in range(3):
        save_tree(tmp_path / "state", {**TREE, "epoch": epoch})
    assert load_tree(tmp_path / "state")["epoch"] == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_tensors_that_share_memory_are_saved(tmp_path):
    x = torch.arange(4.0)
    save_tree(tmp_path / "state", {"a": x, "b": x, "c": x[:2]})
    assert torch.equal(load_tree(tmp_path / "state")["c"], x[:2])


def test_what_is_no_plain_value_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not object"):
        save_tree(tmp_path / "state", {"a": object()})


@pytest.mark.parametrize("damage", ["{", '{"tensors": "gone.safetensors", "tree": {"dict": []}}'])
def test_damaged_states_are_named(tmp_path, damage):
    (tmp_path / "state.json").write_text(damage)
    with pytest.raises(FileError, match="state"):
        load_tree(tmp_path / "state")


def test_a_failed_write_leaves_the_older_file_and_no_other(tmp_path):
    file = tmp_path / "f.txt"
    file.write_text("old")

    def fail(temporary):
        temporary.write_text("half")
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_atomically(file, fail)
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
