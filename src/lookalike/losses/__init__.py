"""Losses by name. A new one is a file and a line here; it inherits the laws in tests/losses/test_laws.py."""

from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.proxy_anchor import ProxyAnchor
from lookalike.losses.proxy_nca import ProxyNCA, ProxyNCAPlusPlus

LOSSES: dict[str, type[MetricLoss]] = {
    "proxy_nca": ProxyNCA,
    "proxy_nca_pp": ProxyNCAPlusPlus,
    "proxy_anchor": ProxyAnchor,
}

__all__ = ["LOSSES", "MetricLoss", "ProxyAnchor", "ProxyLoss", "ProxyNCA", "ProxyNCAPlusPlus"]
