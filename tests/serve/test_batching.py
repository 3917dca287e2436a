"""The queue: concurrent requests share batches, errors reach their callers, and the next batch works."""

import asyncio
import threading

import numpy as np
import pytest
import torch

from lookalike.serve.batching import Batcher


def numbers(images):
    return np.stack([image.numpy().astype(np.float32) for image in images])


def run(encode, jobs, **options):
    async def main():
        batcher = Batcher(**{"max_images": 16, "max_seconds": 0.05, **options})
        batcher.start()
        try:
            return await asyncio.gather(
                *(batcher.submit(encode, job) for job in jobs), return_exceptions=True
            ), batcher.batches
        finally:
            await batcher.stop()

    return asyncio.run(main())


@pytest.mark.parametrize(("count", "most", "batches"), [(1, 16, 1), (16, 16, 1), (33, 16, 3), (5, 1, 5)])
def test_requests_share_batches_and_get_their_own_answer(count, most, batches):
    jobs = [torch.tensor([n, -n]) for n in range(count)]
    answers, used = run(numbers, jobs, max_images=most)
    assert [answer.tolist() for answer in answers] == [[n, -n] for n in range(count)]
    assert used == batches


def test_an_error_reaches_the_callers_of_its_batch_only():
    calls = []

    def encode(images):
        calls.append(len(images))
        if len(calls) == 1:
            raise ValueError("first batch")
        return numbers(images)

    answers, _ = run(encode, [torch.tensor([n]) for n in range(4)], max_images=2)
    assert [isinstance(answer, ValueError) for answer in answers] == [True, True, False, False]


def test_a_caller_that_gives_up_does_not_disturb_the_others():
    go = threading.Event()

    def encode(images):
        go.wait(5)
        return numbers(images)

    async def main():
        batcher = Batcher(max_images=16, max_seconds=0.01)
        batcher.start()
        try:
            first, second = (
                asyncio.ensure_future(batcher.submit(encode, torch.tensor([n]))) for n in range(2)
            )
            await asyncio.sleep(0.05)
            first.cancel()
            go.set()
            return await second
        finally:
            await batcher.stop()

    assert asyncio.run(main()).tolist() == [1]
