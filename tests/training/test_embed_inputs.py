"""Embeddings of all inputs: shared among processes, and ready to be differentiated through."""

from types import SimpleNamespace

import pytest
import torch
from lightning_fabric import Fabric

from lookalike.models import build_embedder
from lookalike.training.embed_inputs import embed_all, pooled_by_view
from lookalike.training.trainable import TrainablePart
from lookalike.utils.distributed import Processes


class Pooled:
    """Vectors as inputs."""

    def __init__(self, vectors):
        self.vectors = vectors

    def __len__(self):
        return len(self.vectors)

    def ensure_views(self, views):
        pass

    def iter_eval(self, first=0, end=None, *, views=1):
        for block in self.vectors[first:end].split(2):
            yield (block,) * views


@pytest.fixture
def trainable():
    return TrainablePart(build_embedder("test_resnet", weights="none", size=32, embedding_dim=4), "frozen")


def context(processes):
    return SimpleNamespace(fabric=Fabric(accelerator="cpu", devices=1), processes=processes)


@pytest.mark.parametrize("rank", range(3))
@pytest.mark.parametrize("images", [1, 2])
def test_more_processes_than_images(rank, images, trainable):
    vectors = torch.randn(images, trainable.embedder.pooled_dim)
    found = embed_all(context(Processes(rank, 3)), trainable, Pooled(vectors), project=False)
    torch.testing.assert_close(found, vectors)


@pytest.mark.parametrize("views", [1, 2])
def test_vectors_can_be_projected_with_gradient(views, trainable):
    inputs = Pooled(torch.randn(5, trainable.embedder.pooled_dim))
    for vectors in pooled_by_view(context(Processes()), trainable, inputs, views):
        trainable.embedder.project(vectors).sum().backward()
