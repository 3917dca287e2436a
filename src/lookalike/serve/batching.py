"""Concurrent requests share runs of the network: a queue that collects images for a few milliseconds."""

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Encode = Callable[[list[Tensor]], NDArray[np.float32]]
"""From prepared images to their vectors, (N, D); called in a thread of its own."""
Job = tuple[Encode, Tensor, asyncio.Future[NDArray[np.float32]]]


class Batcher:
    """Runs batches of what several callers `submit`, one batch at a time.

    Args:
        max_images: per batch.
        max_seconds: that the first image of a batch waits for others.
    """

    def __init__(self, *, max_images: int, max_seconds: float) -> None:
        self._max_images = max_images
        self._max_seconds = max_seconds
        self._queue: asyncio.Queue[Job] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="encode")
        self._task: asyncio.Task[None] | None = None
        self.batches = 0

    def start(self) -> None:
        """Begins to take images; inside a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the thread; images that still wait are not answered."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=True)

    async def submit(self, encode: Encode, image: Tensor) -> NDArray[np.float32]:
        """The vector (D,) of one image; images of the same `encode` share a batch."""
        future: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((encode, image, future))
        return await future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch = [await self._queue.get()]
            until = loop.time() + self._max_seconds
            while len(batch) < self._max_images:
                try:
                    if not self._queue.empty():
                        batch.append(self._queue.get_nowait())
                        continue
                    batch.append(await asyncio.wait_for(self._queue.get(), max(0.0, until - loop.time())))
                except TimeoutError:
                    break
            for encode, jobs in itertools.groupby(batch, key=lambda job: job[0]):
                await self._run_batch(encode, list(jobs))

    async def _run_batch(self, encode: Encode, jobs: list[Job]) -> None:
        self.batches += 1
        waiting = [future for _, _, future in jobs]
        try:
            images = [image for _, image, _ in jobs]
            vectors = await asyncio.get_running_loop().run_in_executor(self._thread, encode, images)
        except Exception as error:
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for future, vector in zip(waiting, vectors, strict=True):
            if not future.done():  # the caller may have gone
                future.set_result(vector)
