"""Unit vectors of the engines' tests."""

import numpy as np

DIM = 8


def unit(count, dim=DIM, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
