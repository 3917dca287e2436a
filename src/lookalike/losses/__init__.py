"""Losses by name. A new one is a file and a line here; it inherits the laws in tests/losses/test_laws.py."""

from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.hierarchical import HierarchicalProxyLoss
from lookalike.losses.horde import Horde
from lookalike.losses.margin_softmax import ArcFace, CosFace
from lookalike.losses.norm_softmax import NormSoftmax
from lookalike.losses.pairs import (
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
from lookalike.losses.tree import tree_page, tree_text

LOSSES: dict[str, type[MetricLoss]] = {
    "proxy_nca": ProxyNCA,
    "proxy_nca_pp": ProxyNCAPlusPlus,
    "proxy_anchor": ProxyAnchor,
    "soft_triple": SoftTriple,
    "proxy_gml": ProxyGML,
    "norm_softmax": NormSoftmax,
    "cos_face": CosFace,
    "arc_face": ArcFace,
    "hierarchical": HierarchicalProxyLoss,
    "horde": Horde,
    "sampled": Sampled,
    "multi_similarity": MultiSimilarity,
    "margin": Margin,
    "triplet_semihard": TripletSemihard,
    "triplet": Triplet,
    "contrastive": Contrastive,
    "n_pairs": NPairs,
    "lifted_structure": LiftedStructure,
    "ranked_list": RankedList,
}

__all__ = [
    "LOSSES",
    "ArcFace",
    "AsPML",
    "Contrastive",
    "CosFace",
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
    "tree_page",
    "tree_text",
]
