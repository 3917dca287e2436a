"""Reference values of Proxy Synthesis, PFML, Divide and Conquer and HTL: loss and gradients, in float64."""

import json
import os
from pathlib import Path

import pytest
import torch

from lookalike.losses import DivideAndConquer, HierarchicalTriplet, PotentialField, ProxySynthesis

FILE = Path(os.environ.get("LOOKALIKE_SHARED", Path(__file__).parents[3] / "shared")) / "oracles_more.json"
ORACLES = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {"losses": [], "inputs": {}}
BASES = {
    "proxy_synthesis(norm_softmax)": lambda s: {
        "name": "norm_softmax", "settings": {"temperature": 1 / s["scale"]},
    },
    "proxy_synthesis(proxy_nca)": lambda s: {
        "name": "proxy_nca", "settings": {"temperature": 1 / s["scale"], "include_positive": True},
    },
    "proxy_synthesis(proxy_anchor)": lambda s: {
        "name": "proxy_anchor", "settings": {"scale": s["alpha"], "margin": s["delta"]},
    },
}  # fmt: skip
RECORDS = [record for record in ORACLES["losses"] if record["loss"] in {*BASES, "pfml"}]
OF_BATCHES = [
    record
    for record in ORACLES["losses"]
    if record["loss"] in ("divide_and_conquer_margin", "hierarchical_triplet")
]

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason=f"reference values are absent: no file {FILE}")


def value_of(record, given, embeddings, proxies, labels):
    """Our loss for a reference record."""
    s, classes, dim = record["settings"], given["C"], given["d"]
    if record["loss"] == "pfml":
        loss = PotentialField(
            classes,
            dim,
            proxies_per_class=len(proxies) // classes,
            alpha=s["alpha"],
            delta=s["delta"],
            reduction=s["reduction"],
            normalize_proxies=s["proxies_normalised"],
        ).double()
        return torch.func.functional_call(loss, {"proxies": proxies}, (embeddings, labels))
    loss = ProxySynthesis(classes, dim, base=BASES[record["loss"]](s), keep_equal_pairs=True).double()
    with torch.no_grad():
        loss.base.proxies.copy_(proxies)
    synthetic = record.get("synthetic", int(len(labels) * s["mu"]))
    partner = torch.tensor((s["partner"] or [])[:synthetic], dtype=torch.int64)
    value = loss.with_synthetic(embeddings, labels, partner, s["lambda"] or 0.0)
    value.backward()
    proxies.grad = loss.base.proxies.grad
    return value


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: f"{r['loss']} {r['input']} {r['settings']}")
def test_value_and_gradients_are_the_references(record):
    given = ORACLES["inputs"][record["input"]]
    embeddings = torch.tensor(given["embeddings_raw"], dtype=torch.float64, requires_grad=True)
    proxies = torch.tensor(given["proxies_raw"], dtype=torch.float64, requires_grad=True)
    value = value_of(record, given, embeddings, proxies, torch.tensor(given["labels"]))
    if proxies.grad is None:
        value.backward()
    assert value.item() == pytest.approx(record["loss_value"], rel=1e-9)
    for found, key in ((embeddings.grad, "grad_embeddings_raw"), (proxies.grad, "grad_proxies_raw")):
        expected = torch.tensor(record[key], dtype=torch.float64)
        assert torch.allclose(found, expected, rtol=1e-6, atol=1e-7 * max(1, expected.abs().max())), key


def divide_and_conquer(given, s):
    """The base of a slice, or of the whole embedding, as a function of whole embeddings."""
    base = {
        "name": "nearest_margin",
        "settings": {key: s[key] for key in ("beta", "margin", "cutoff", "divide_by")},
    }
    if s["K"] == 1:
        whole = DivideAndConquer(given["C"], given["d"], base=base, learners=2).double()
        return whole.of_whole
    loss = DivideAndConquer(given["C"], given["d"], base=base, learners=s["K"], unit_slices=True).double()
    loss._turns = [] if s["slice"] is None else [s["slice"]]
    return loss.train()


def hierarchical_triplet(given, s, embeddings, labels):
    """The loss with the tree of the batch itself."""
    loss = HierarchicalTriplet(
        given["C"], given["d"], beta=s["beta"], levels=s["L"], merge=s["merge"]
    ).double()
    loss.update(embeddings.detach(), labels)
    return loss


@pytest.mark.parametrize("record", OF_BATCHES, ids=lambda r: f"{r['loss']} {r['input']} {r['settings']}")
def test_losses_without_proxies_are_the_references(record):
    given, s = ORACLES["inputs"][record["input"]], record["settings"]
    embeddings = torch.tensor(given["embeddings_raw"], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor(given["labels"])
    if record["loss"] == "hierarchical_triplet":
        loss = hierarchical_triplet(given, s, embeddings, labels)
        assert loss.spread_C.tolist() == pytest.approx(record["intra_class_s"])
        expected = torch.tensor(record["margin_anchor_negative"], dtype=torch.float64)
        apart = ~torch.eye(given["C"], dtype=torch.bool)
        torch.testing.assert_close(loss.margins(torch.arange(given["C"]))[apart], expected[apart])
    else:
        loss = divide_and_conquer(given, s)
    value = loss(embeddings, labels)
    value.backward()
    assert value.item() == pytest.approx(record["loss_value"], rel=1e-9)
    expected = torch.tensor(record["grad_embeddings_raw"], dtype=torch.float64)
    assert torch.allclose(embeddings.grad, expected, rtol=1e-6, atol=1e-7 * max(1, expected.abs().max()))
