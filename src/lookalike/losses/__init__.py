"""Losses for embeddings, by class and by name.

A new one is a file and a line in `build.py`; see docs/how_to/add_a_loss.md.
"""

from lookalike.losses.arcface import ArcFace, CosFace
from lookalike.losses.base import MetricLoss, ProxyLoss
from lookalike.losses.contrastive import CosineContrastive
from lookalike.losses.hierarchical import HierarchicalProxyLoss
from lookalike.losses.horde import Horde
from lookalike.losses.norm_softmax import NormSoftmax
from lookalike.losses.pair_counts import PairCounts
from lookalike.losses.pairs import (
    Contrastive,
    LiftedStructure,
    Margin,
    MultiSimilarity,
    NPairs,
    RankedList,
    Triplet,
    TripletSemihard,
)
from lookalike.losses.pml import AsPML, FromPML
from lookalike.losses.pml_named import NamedPML
from lookalike.losses.potential_field import PotentialField
from lookalike.losses.proxy_anchor import ProxyAnchor
from lookalike.losses.proxy_gml import ProxyGML
from lookalike.losses.proxy_nca import ProxyNCA, ProxyNCAPlusPlus
from lookalike.losses.proxy_synthesis import ProxySynthesis
from lookalike.losses.sampled import Sampled
from lookalike.losses.search_range import SearchRange
from lookalike.losses.soft_triple import SoftTriple
from lookalike.losses.table import LOSSES, arguments_of, check_arguments, documentation_table, search_space

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
    "NamedPML",
    "NormSoftmax",
    "PairCounts",
    "PotentialField",
    "ProxyAnchor",
    "ProxyGML",
    "ProxyLoss",
    "ProxyNCA",
    "ProxyNCAPlusPlus",
    "ProxySynthesis",
    "RankedList",
    "Sampled",
    "SearchRange",
    "SoftTriple",
    "Triplet",
    "TripletSemihard",
    "arguments_of",
    "check_arguments",
    "documentation_table",
    "search_space",
]
