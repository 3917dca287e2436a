"""Concurrent requests share runs of the network: a queue that collects images for a few milliseconds."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Encode = Callable[[list[Tensor]], NDArray[np.float32]]


class Batcher:
    """Runs `encode` on batches of what several callers `submit`, one batch at a time.

    Args:
        encode: from prepared images to their vectors, (N, D); called in a thread of its own.
        max_images: per batch.
        max_seconds: that the first image of a batch waits for others.
    """

    def __init__(self, encode: Encode, *, max_images: int, max_seconds: float) -> None:
        self._encode = encode
        self._max_images = max_images
        self._max_seconds = max_seconds
        self._queue: asyncio.Queue[tuple[Tensor, asyncio.Future[NDArray[np.float32]]]] = asyncio.Queue()
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

    async def submit(self, image: Tensor) -> NDArray[np.float32]:
        """The vector (D,) of one image."""
        future: asyncio.Future[NDArray[np.float32]] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait((image, future))
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
            self.batches += 1
            try:
                images = [image for image, _ in batch]
                vectors = await loop.run_in_executor(self._thread, self._encode, images)
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), vector in zip(batch, vectors, strict=True):
                if not future.done():  # the caller may have gone
                    future.set_result(vector)
