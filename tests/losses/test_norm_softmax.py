import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import ArgumentError
from lookalike.losses import NormSoftmax

from .twins import few_examples, hand_loss, of_similarities, random_sims


@few_examples
@given(seed=st.integers(0, 99), temperature=st.sampled_from([0.05, 0.2, 1.0]))
def test_equals_its_slow_twin(seed, temperature):
    sims, labels = random_sims(seed)
    slow = [
        math.log(sum(math.exp(s / temperature) for s in row)) - row[y] / temperature
        for row, y in zip(sims.tolist(), labels.tolist(), strict=True)
    ]
    fast = of_similarities(NormSoftmax, sims, labels, temperature=temperature)
    assert fast.item() == pytest.approx(sum(slow) / len(slow))


def test_hand_worked_value():
    # Samples 2 and 4 have cosines .6 to their own and .8 to another proxy: log(1 + e^(.2/.05)) each, others
    # 0.
    assert hand_loss(NormSoftmax(3, 2)).item() == pytest.approx(2 * math.log1p(math.exp(4)) / 4, abs=1e-6)


def test_an_unsure_embedding_costs_the_logarithm_of_the_number_of_classes():
    value = of_similarities(NormSoftmax, torch.zeros(2, 7), torch.tensor([0, 3]), temperature=0.05)
    assert value.item() == pytest.approx(math.log(7))


def test_a_negative_temperature_is_refused():
    with pytest.raises(ArgumentError, match=r"temperature is -0\.1; it must be above 0"):
        NormSoftmax(3, 2, temperature=-0.1)
