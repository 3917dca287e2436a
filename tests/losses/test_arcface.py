import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning import losses as pml

from lookalike.errors import ArgumentError
from lookalike.losses import ArcFace, CosFace, NormSoftmax

from .twins import few_examples, hand_loss, of_similarities, random_sims


def slow_margin_softmax(sims, labels, scale, own_cosine):
    total = 0.0
    for row, y in zip(sims.tolist(), labels.tolist(), strict=True):
        logits = [scale * (own_cosine(s) if c == y else s) for c, s in enumerate(row)]
        total += math.log(sum(map(math.exp, logits))) - logits[y]
    return total / len(labels)


@few_examples
@given(seed=st.integers(0, 99), margin=st.sampled_from([0.0, 0.35, 1.0]))
def test_cos_face_equals_its_slow_twin(seed, margin):
    sims, labels = random_sims(seed)
    slow = slow_margin_softmax(sims, labels, 16, lambda s: s - margin)
    assert of_similarities(CosFace, sims, labels, margin=margin, scale=16).item() == pytest.approx(slow)


@few_examples
@given(seed=st.integers(0, 99), margin=st.sampled_from([0.0, 0.5, 1.2]))
def test_arc_face_equals_its_slow_twin(seed, margin):
    def own_cosine(s):
        angle = math.acos(s)
        return math.cos(angle + margin) if angle + margin <= math.pi else s - margin * math.sin(margin)

    sims, labels = random_sims(seed)
    slow = slow_margin_softmax(sims, labels, 16, own_cosine)
    assert of_similarities(ArcFace, sims, labels, margin=margin, scale=16).item() == pytest.approx(slow)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (CosFace(3, 2), pml.CosFaceLoss(3, 2, margin=0.35, scale=64)),
        (ArcFace(3, 2), pml.ArcFaceLoss(3, 2, margin=math.degrees(0.5), scale=64)),
    ],
)
def test_equals_pytorch_metric_learning(ours, theirs):
    g = torch.Generator().manual_seed(0)
    embeddings = torch.randn(6, 2, generator=g, dtype=torch.float64)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    theirs.W.data = ours.proxies.data.T.double()
    torch.testing.assert_close(ours.double()(embeddings, labels), theirs(embeddings, labels))


def test_hand_worked_value():
    # CosFace at margin .1 and scale 10: sample 2 has own logit 5 against 8, sample 4 own 5 against 8; sample
    # 1 own 9 against 0 and -10, sample 3 own 9 against 0 twice.
    samples = [
        math.log1p(math.exp(-9) + math.exp(-19)),
        math.log1p(math.exp(3) + math.exp(-11)),
        math.log1p(2 * math.exp(-9)),
        math.log1p(math.exp(3) + math.exp(-13)),
    ]
    assert hand_loss(CosFace(3, 2, margin=0.1, scale=10)).item() == pytest.approx(sum(samples) / 4)


@pytest.mark.parametrize("kind", [CosFace, ArcFace])
def test_without_a_margin_both_are_norm_softmax(kind):
    other = hand_loss(NormSoftmax(3, 2, temperature=1 / 20))
    assert hand_loss(kind(3, 2, margin=0, scale=20)).item() == pytest.approx(other.item())


def test_arc_face_falls_with_the_own_cosine_everywhere():
    own = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    sims = torch.stack([own, torch.zeros_like(own)], dim=1)
    values = torch.stack(
        [of_similarities(ArcFace, row[None], torch.tensor([0]), margin=0.5, scale=8) for row in sims]
    )
    assert (values.diff() < 0).all()


def test_a_margin_in_degrees_is_refused():
    with pytest.raises(ArgumentError, match=r"margin \(radians\) is 28\.6"):
        ArcFace(3, 2, margin=28.6)
