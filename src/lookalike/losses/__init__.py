"""Losses by name. A new one is a file and a line here; it inherits the laws in tests/losses/test_laws.py."""

from lookalike.losses.arcface import ArcFace, CosFace
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.build import BASE_LOSSES
from lookalike.losses.contrastive import CosineContrastive
from lookalike.losses.hierarchical import HierarchicalProxyLoss
from lookalike.losses.horde import Horde
from lookalike.losses.norm_softmax import NormSoftmax
from lookalike.losses.pml import (
    AsPML,
    Contrastive,
    FromPML,
    LiftedStructure,
    Margin,
    MultiSimilarity,
    NPairs,
    RankedList,
    Triplet,
    TripletSemihard,
)
from lookalike.losses.proxy_anchor import ProxyAnchor
from lookalike.losses.proxy_gml import ProxyGML
from lookalike.losses.proxy_nca import ProxyNCA, ProxyNCAPlusPlus
from lookalike.losses.sampled import Sampled
from lookalike.losses.soft_triple import SoftTriple

LOSSES: dict[str, type[MetricLoss]] = {
    **BASE_LOSSES,
    "hierarchical": HierarchicalProxyLoss,
    "horde": Horde,
    "sampled": Sampled,
}
"""Every loss that an experiment can name: those that stand alone, and the wrappers around them."""

__all__ = [
    "LOSSES",
    "ArcFace",
    "AsPML",
    "Contrastive",
    "CosFace",
    "CosineContrastive",
    "FromPML",
    "HierarchicalProxyLoss",
    "Horde",
    "LiftedStructure",
    "Margin",
    "MetricLoss",
    "MultiSimilarity",
    "NPairs",
    "NormSoftmax",
    "ProxyAnchor",
    "ProxyGML",
    "ProxyLoss",
    "ProxyNCA",
    "ProxyNCAPlusPlus",
    "RankedList",
    "Sampled",
    "SoftTriple",
    "Triplet",
    "TripletSemihard",
]
