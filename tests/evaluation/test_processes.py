"""Two processes share the queries and get, each, the digits of one."""

import numpy as np
import torch
from benchmarks.faults.commands import fork_server
from torch import distributed as dist

from lookalike.evaluation import evaluate
from lookalike.utils.distributed import Processes


def data():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 25, 151)
    rows = (generator.normal(size=(25, 12))[labels] + generator.normal(size=(151, 12))).astype(np.float32)
    rows[100:120] = rows[:20]
    return rows, labels


def work(rank, size, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=size)
    result = evaluate(*data(), processes=Processes.all())
    result.save(f"{folder}/{rank}")
    dist.destroy_process_group()


def test_two_processes_give_the_digits_of_one(tmp_path):
    running = [fork_server().Process(target=work, args=(rank, 2, str(tmp_path))) for rank in range(2)]
    for process in running:
        process.start()
    for process in running:
        process.join()
        assert process.exitcode == 0
    alone = evaluate(*data())
    expected = alone.save(tmp_path / "alone").read_text()
    for rank in range(2):
        assert (tmp_path / f"{rank}.json").read_text() == expected
        with np.load(tmp_path / f"{rank}.npz") as arrays:
            for key, column in alone.per_query.items():
                assert np.array_equal(arrays[key], column, equal_nan=True)
