"""Reference values of Proxy Synthesis and of the potential field: loss and gradients, in float64."""

import json
import os
from pathlib import Path

import pytest
import torch

from lookalike.losses import PotentialField, ProxySynthesis

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
RECORDS = [
    record
    for record in ORACLES["losses"]
    if record["loss"] in {*BASES, "pfml"} and record["settings"].get("proxies_normalised", True)
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
        ).double()
        value = torch.func.functional_call(loss, {"proxies": proxies}, (embeddings, labels))
        n = len(embeddings) + len(proxies)
        return value / (n * (n - 1)) if s["reduction"] == "mean" else value
    loss = ProxySynthesis(classes, dim, base=BASES[record["loss"]](s)).double()
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
