"""Every reference value: loss and gradients by raw embeddings and raw proxies, in float64."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from lookalike.losses import LOSSES, ProxyLoss

SHARED = Path(os.environ.get("LOOKALIKE_SHARED", Path(__file__).parents[3] / "shared"))
FILE, MORE = SHARED / "oracles.json", SHARED / "oracles_more.json"


def read(file: Path) -> dict:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"losses": [], "inputs": {}}


ORACLES = read(FILE)
ORACLES_MORE = read(MORE)

pytestmark = pytest.mark.skipif(not FILE.is_file(), reason=f"reference values are absent: no file {FILE}")


def float32_smoothing(smoothing: float, classes: int) -> tuple[float, float]:
    """Label smoothing and factor that reproduce targets rounded to float32, as the reference has them."""
    own, other = np.float32(1 - smoothing), np.float32(smoothing / (classes - 1))
    total = float(own) + float(other) * (classes - 1)
    return float(other) * (classes - 1) / total, total


def ours(record: dict, classes: int) -> tuple[str, dict, float]:
    """Name and settings of our loss for a reference record, and a factor to multiply it with."""
    s = record["settings"]
    match record["loss"]:
        case "proxy_anchor":
            return "proxy_anchor", {"scale": s["alpha"], "margin": s["margin"]}, 1
        case "proxynca_pp":
            return "proxy_nca_pp", {}, 1
        case "proxynca_classic":
            return "proxy_nca", {"temperature": 1 / s["scale"] ** 2}, 1
        case "proxynca_pa_baseline":
            return "proxy_nca", {"temperature": 1 / s["softmax_scale"], "include_positive": True}, 1
        case "proxynca_dichotomies":
            smoothing, factor = float32_smoothing(s["label_smoothing"], classes)
            temperature = 1 / (s["scaling_x"] * s["scaling_p"])
            settings = {"temperature": temperature, "include_positive": True, "label_smoothing": smoothing}
            return "proxy_nca", settings, factor
        case "normsoftmax":
            return "norm_softmax", {"temperature": s["temperature"]}, 1
        case "softtriple":
            return (
                "soft_triple",
                {
                    "centers_per_class": s["K"],
                    "scale": s["la"],
                    "gamma": s["gamma"],
                    "margin": s["margin"],
                    "center_weight": s["tau"],
                },
                1,
            )
        case "proxygml":
            settings = {
                "proxies_per_class": s["N"],
                "neighbor_ratio": s["r"],
                "regularizer_weight": s["weight_lambda"],
            }
            if "official" in record["implementation"]:
                settings["mask"] = "nonzero"
            if "bonus 1" in record["implementation"]:
                settings["positive_bonus"] = 1.0
            return "proxy_gml", settings, 1
        case "contrastive":
            return (
                "contrastive",
                {"positive_margin": s["pos_margin"], "negative_margin": s["neg_margin"]},
                1,
            )
        case "triplet_semihard":
            return "triplet_semihard", s, 1
        case "triplet_all":
            return "triplet", s, 1
        case "multi_similarity":
            return "multi_similarity", s, 1
        case "margin":
            return "margin", {**s, "sampling": "all"}, 1
        case "npairs":
            return "n_pairs", {"l2_weight": 0}, 1
        case "lifted_structure":
            return (
                "lifted_structure",
                {"negative_margin": s["neg_margin"], "positive_margin": s["pos_margin"]},
                1,
            )
        case "ranked_list":
            return "ranked_list", {"negative_temperature": 5}, 1
        case "hpl_two_level":
            base = {
                "proxy_anchor alpha=32 margin=.1": "proxy_anchor",
                "softmax ProxyNCA scale=3": "proxy_nca_pp",
            }
            mode = {"differentiable_mean": "means", "detached": "constant"}
            settings = {
                "base": base[s["base"]],
                "coarse_mode": mode[s["coarse"]],
                "parents": [s["assignment_by_C"][str(classes)]],
            }
            return "hierarchical", settings, 1
        case other:
            raise AssertionError(f"no loss of ours for '{other}'")


def tolerance(record: dict) -> float:
    return 1e-7 if record["loss"] in ("softtriple", "proxygml") else 1e-9


@pytest.mark.parametrize("form", ["dense", "chunked"])
@pytest.mark.parametrize("record", ORACLES["losses"], ids=lambda r: f"{r['loss']}-{r['input']}")
def test_value_and_gradients(record, form):
    batch = ORACLES["inputs"].get(record["input"]) or ORACLES["inputs"][record["input"] + "_n1"]
    check(record, batch, *ours(record, batch["C"]), form)


def without_synthesis(record: dict) -> tuple[str, dict]:
    """Name and settings of our loss for a record of Proxy Synthesis that adds no synthetic class."""
    s = record["settings"]
    match record["loss"]:
        case "proxy_synthesis(norm_softmax)":
            return "norm_softmax", {"temperature": 1 / s["scale"]}
        case "proxy_synthesis(proxy_nca)":
            return "proxy_nca_pp", {"temperature": 1 / s["scale"]}
        case "proxy_synthesis(proxy_anchor)":
            return "proxy_anchor", {"scale": s["alpha"], "margin": s["delta"]}
        case "proxy_synthesis(soft_triple)":
            return "soft_triple", {
                "centers_per_class": s["K"],
                "scale": s["la"],
                "gamma": s["gamma"],
                "margin": s["margin"],
                "center_weight": s["tau"],
            }
        case other:
            raise AssertionError(f"no loss of ours for '{other}'")


BASES = [record for record in ORACLES_MORE["losses"] if record["settings"].get("mu") == 0]


@pytest.mark.parametrize("form", ["dense", "chunked"])
@pytest.mark.parametrize("record", BASES, ids=lambda r: f"{r['loss']}-{r['input']}")
def test_the_bases_of_proxy_synthesis(record, form):
    """Those records of the second file that are a loss of ours: without synthetic classes."""
    check(record, ORACLES_MORE["inputs"][record["input"]], *without_synthesis(record), 1, form)


def check(record: dict, batch: dict, name: str, settings: dict, factor: float, form: str) -> None:
    """Our loss has the record's value and gradients by raw embeddings and raw proxies."""
    embeddings = torch.tensor(batch["embeddings_raw"], dtype=torch.float64, requires_grad=True)
    loss = LOSSES[name](batch["C"], batch["d"], **settings).double()
    for module in loss.modules():
        if isinstance(module, ProxyLoss):
            module.form = form
    if loss.proxy_loss is not None:
        loss.proxy_loss.proxies.data.copy_(torch.tensor(batch["proxies_raw"], dtype=torch.float64))
    value = factor * loss(embeddings, torch.tensor(batch["labels"]))
    value.backward()
    close = {"rtol": tolerance(record), "atol": 1e-9}
    torch.testing.assert_close(value.item(), record["loss_value"], **close)
    pairs = [(embeddings.grad, record["grad_embeddings_raw"])]
    if loss.proxy_loss is not None:
        pairs.append((loss.proxy_loss.proxies.grad, record["grad_proxies_raw"]))
    for ours_grad, reference in pairs:
        torch.testing.assert_close(ours_grad, torch.tensor(reference, dtype=torch.float64), **close)
