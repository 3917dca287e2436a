import math

import pytest
import torch
from pytorch_metric_learning import losses as pml_losses
from pytorch_metric_learning import miners as pml_miners
from pytorch_metric_learning.trainers import MetricLossOnly

from lookalike.errors import ArgumentError
from lookalike.losses import LOSSES, AsPML, FromPML, Margin, MultiSimilarity, NPairs, ProxyAnchor
from lookalike.losses.pml import PMLLoss

from .twins import HAND_SIMS, hand_loss

PAIRS = [name for name, kind in LOSSES.items() if issubclass(kind, PMLLoss) and name != "pml"]


def distance(cosine):
    return math.sqrt(2 - 2 * cosine)


def test_pair_losses_have_no_proxies():
    assert len(PAIRS) == 8
    assert all(LOSSES[name](3, 2).proxy_loss is None for name in PAIRS)


# Cosines of the hand case: 1-2 .6 (same class), 3-4 .6 (same), 1-3 0, 1-4 -.8, 2-3 .8, 2-4 0.
HAND_PAIRS = {(0, 1): 0.6, (2, 3): 0.6, (0, 2): 0.0, (0, 3): -0.8, (1, 2): 0.8, (1, 3): 0.0}


def cosine(i, j):
    return HAND_PAIRS[min(i, j), max(i, j)]


def test_hand_worked_triplets():
    triplets = [(0, 1, n) for n in (2, 3)] + [(1, 0, n) for n in (2, 3)]
    triplets += [(2, 3, n) for n in (0, 1)] + [(3, 2, n) for n in (0, 1)]
    violations = [distance(cosine(a, p)) - distance(cosine(a, n)) + 0.2 for a, p, n in triplets]
    active = [v for v in violations if v > 0]
    assert hand_loss(LOSSES["triplet"](3, 2)).item() == pytest.approx(sum(active) / len(active))
    assert sum(active) / len(active) == pytest.approx(0.461972, abs=1e-6)
    # Semi-hard at .1: only a negative that is farther by .1 or less counts, and there is none.
    assert hand_loss(LOSSES["triplet_semihard"](3, 2)).item() == 0


def test_hand_worked_contrastive():
    # Both positive pairs are sqrt(.8) apart; one negative pair, at cosine .8, is within 1: 1 - sqrt(.4).
    value = hand_loss(LOSSES["contrastive"](3, 2, negative_margin=1)).item()
    assert value == pytest.approx(math.sqrt(0.8) + 1 - math.sqrt(0.4))
    assert value == pytest.approx(1.261972, abs=1e-6)


def test_hand_worked_multi_similarity():
    # Each anchor has one positive at .6. Of its negatives those above .6 - .1 are kept, and the positive is
    # kept only where some negative is above .6 - .1: samples 2 and 3, which have each other at .8.
    kept = math.log1p(math.exp(-2 * (0.6 - 0.5))) / 2 + math.log1p(math.exp(50 * (0.8 - 0.5))) / 50
    assert hand_loss(MultiSimilarity(3, 2)).item() == pytest.approx(2 * kept / 4)
    assert 2 * kept / 4 == pytest.approx(0.299535, abs=1e-6)


def test_hand_worked_margin():
    # Beyond 1.2 - .2 no positive pair counts, as sqrt(.8) is less; negatives within 1.2 + .2: cosine .8, at
    # sqrt(.4), for the anchors 2 and 3, one triplet each.
    value = hand_loss(Margin(3, 2, sampling="all")).item()
    assert value == pytest.approx(1.4 - math.sqrt(0.4))
    assert value == pytest.approx(0.767545, abs=1e-6)


def test_hand_worked_lifted_structure():
    # Pair (1, 2): negatives at cosines 0, -.8 and .8, 0; pair (3, 4): 0, .8 and -.8, 0. Both the same.
    over = math.log(sum(math.exp(1 - distance(s)) for s in (0, -0.8, 0.8, 0))) + math.sqrt(0.8)
    value = hand_loss(LOSSES["lifted_structure"](3, 2)).item()
    assert value == pytest.approx(over**2 / 2)
    assert value == pytest.approx(2.099767, abs=1e-6)


def test_hand_worked_n_pairs():
    # Pairs (1, 2) and (3, 4): logits of anchor 1 with positives 2 and 4, of anchor 3 with 2 and 4.
    first = math.log(math.exp(0.6) + math.exp(-0.8)) - 0.6
    second = math.log(math.exp(0.8) + math.exp(0.6)) - 0.6
    assert hand_loss(NPairs(3, 2, l2_weight=0)).item() == pytest.approx((first + second) / 2)
    assert hand_loss(NPairs(3, 2, l2_weight=0.5)).item() == pytest.approx((first + second) / 2 + 0.5)


def test_ranked_list_equals_its_slow_twin():
    def slow(margin, alpha, temperature):
        total = 0.0
        for i in range(4):
            near = {j: distance(cosine(i, j)) for j in range(4) if j != i}
            positives = [d for j, d in near.items() if j // 2 == i // 2 and d > alpha - margin]
            negatives = [d for j, d in near.items() if j // 2 != i // 2 and d < alpha]
            weights = [math.exp(temperature * (alpha - d)) for d in negatives]
            if positives:
                total += 0.5 * sum(d - alpha + margin for d in positives) / len(positives)
            if negatives:
                pushes = [w * (alpha - d) for w, d in zip(weights, negatives, strict=True)]
                total += 0.5 * sum(pushes) / sum(weights)
        return total / 4

    assert hand_loss(LOSSES["ranked_list"](3, 2)).item() == pytest.approx(slow(0.4, 1.2, 10), rel=1e-4)
    assert HAND_SIMS[0] == [1, 0, -1]


def test_the_boundary_of_the_margin_loss_is_trained():
    loss = Margin(3, 2, sampling="all")
    names = dict(loss.named_parameters())
    assert list(names) == ["loss.beta"]
    torch.testing.assert_close(names["loss.beta"].data, torch.full((3,), 1.2))
    value = loss(torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-0.8, 0.6]]), torch.tensor([0, 0, 1, 1]))
    value.backward()
    assert names["loss.beta"].grad.abs().sum() > 0


def test_distance_weighted_triplets_follow_torchs_seed_and_survive_every_batch():
    g = torch.Generator().manual_seed(0)
    embeddings = torch.randn(12, 8, generator=g)
    loss = Margin(4, 8)
    labels = torch.arange(12) % 4
    with torch.random.fork_rng():
        torch.manual_seed(1)
        first = loss(embeddings, labels)
        torch.manual_seed(1)
        assert torch.equal(loss(embeddings, labels), first)
        assert first > 0
        for bad in (torch.zeros_like(labels), torch.arange(12) % 4):
            assert loss(torch.ones(12, 8), bad).isfinite()


def test_any_loss_of_pml_works_in_ours():
    g = torch.Generator().manual_seed(0)
    embeddings, labels = torch.randn(8, 4, generator=g), torch.arange(8) % 3
    theirs, miner = pml_losses.CircleLoss(), pml_miners.PairMarginMiner()
    ours = FromPML(3, 4, loss=theirs, miner=miner)
    torch.testing.assert_close(
        ours(embeddings, labels), theirs(embeddings, labels, miner(embeddings, labels))
    )
    proxies = FromPML(3, 4, loss=pml_losses.SoftTripleLoss(3, 4, centers_per_class=2))
    assert [name for name, _ in proxies.named_parameters()] == ["loss.fc"]
    assert ours(embeddings.half(), labels).dtype == torch.float32
    with pytest.raises(ArgumentError, match="label 3 is not in"):
        ours(embeddings, torch.arange(8) % 4)


def test_embeddings_are_not_normalized_on_request():
    theirs = pml_losses.NPairsLoss()
    embeddings, labels = 3 * torch.eye(4), torch.tensor([0, 0, 1, 1])
    raw = FromPML(2, 4, loss=theirs, normalized=False)
    torch.testing.assert_close(raw(embeddings.half(), labels), theirs(embeddings, labels))


def test_a_loss_of_ours_works_in_a_loop_of_pml():
    """The loop of that package's own examples: miner, loss with the mined triplets, one optimizer for all."""
    g = torch.Generator().manual_seed(0)
    model = torch.nn.Linear(6, 4)
    loss = AsPML(ProxyAnchor(3, 4, generator=g))
    miner = pml_miners.BatchHardMiner()
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=0.05)
    centers = torch.randn(3, 6, generator=g)
    values = []
    for _ in range(30):
        labels = torch.arange(12) % 3
        data = centers[labels] + 0.1 * torch.randn(12, 6, generator=g)
        optimizer.zero_grad()
        embeddings = model(data)
        value = loss(embeddings, labels, miner(embeddings, labels))
        value.backward()
        optimizer.step()
        values.append(value.item())
    assert values[-1] < 0.2 * values[0]
    with pytest.raises(ArgumentError, match="ref_emb and ref_labels"):
        loss(embeddings, labels, None, embeddings, labels)


def test_invalid_arguments_are_refused():
    with pytest.raises(ArgumentError, match="sampling is 'distance'; did you mean 'distance_weighted'"):
        Margin(3, 2, sampling="distance")
    with pytest.raises(ArgumentError, match="margin is 0; it must be above 0"):
        LOSSES["triplet_semihard"](3, 2, margin=0)
    with pytest.raises(ArgumentError, match="margin is nan; it must be a finite number"):
        LOSSES["triplet"](3, 2, margin=math.nan)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")  # in its own progress bar
def test_a_loss_of_ours_works_in_a_trainer_of_pml(capfd):
    g = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 3
    data = torch.eye(6)[:3][labels] + 0.1 * torch.randn(24, 6, generator=g)
    trunk, loss = torch.nn.Linear(6, 4), AsPML(ProxyAnchor(3, 4, generator=g))
    start = loss.loss.proxies.detach().clone()
    trainer = MetricLossOnly(
        models={"trunk": trunk},
        optimizers={
            "trunk_optimizer": torch.optim.Adam(trunk.parameters(), lr=0.05),
            "metric_loss_optimizer": torch.optim.Adam(loss.parameters(), lr=0.05),
        },
        batch_size=12,
        loss_funcs={"metric_loss": loss},
        mining_funcs={"tuple_miner": pml_miners.MultiSimilarityMiner()},
        dataset=torch.utils.data.TensorDataset(data, labels),
        dataloader_num_workers=0,
        data_device=torch.device("cpu"),
    )
    before = loss(trunk(data), labels).item()
    trainer.train(num_epochs=10)
    capfd.readouterr()  # its progress bars
    assert loss(trunk(data), labels).item() < before
    assert not torch.equal(loss.loss.proxies, start)
