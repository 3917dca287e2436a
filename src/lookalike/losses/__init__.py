"""Losses for embeddings, by class and by name.

A new one is a file and a line in `build.py`; see docs/how_to/add_a_loss.md.
"""

from lookalike.losses.arcface import ArcFace as ArcFace
from lookalike.losses.arcface import CosFace as CosFace
from lookalike.losses.base import MetricLoss as MetricLoss
from lookalike.losses.base import ProxyLoss as ProxyLoss
from lookalike.losses.batch_planner import BatchPlanner as BatchPlanner
from lookalike.losses.contrastive import CosineContrastive as CosineContrastive
from lookalike.losses.divide_and_conquer import DivideAndConquer as DivideAndConquer
from lookalike.losses.hierarchical import HierarchicalProxyLoss as HierarchicalProxyLoss
from lookalike.losses.hierarchical_triplet import HierarchicalTriplet as HierarchicalTriplet
from lookalike.losses.horde import Horde as Horde
from lookalike.losses.nearest_margin import NearestMargin as NearestMargin
from lookalike.losses.norm_softmax import NormSoftmax as NormSoftmax
from lookalike.losses.pairs import Contrastive as Contrastive
from lookalike.losses.pairs import LiftedStructure as LiftedStructure
from lookalike.losses.pairs import Margin as Margin
from lookalike.losses.pairs import MultiSimilarity as MultiSimilarity
from lookalike.losses.pairs import NPairs as NPairs
from lookalike.losses.pairs import RankedList as RankedList
from lookalike.losses.pairs import Triplet as Triplet
from lookalike.losses.pairs import TripletSemihard as TripletSemihard
from lookalike.losses.pml import AsPML as AsPML
from lookalike.losses.pml import FromPML as FromPML
from lookalike.losses.pml_named import NamedPML as NamedPML
from lookalike.losses.potential_field import PotentialField as PotentialField
from lookalike.losses.proxy_anchor import ProxyAnchor as ProxyAnchor
from lookalike.losses.proxy_gml import ProxyGML as ProxyGML
from lookalike.losses.proxy_nca import ProxyNCA as ProxyNCA
from lookalike.losses.proxy_nca import ProxyNCAPlusPlus as ProxyNCAPlusPlus
from lookalike.losses.proxy_synthesis import ProxySynthesis as ProxySynthesis
from lookalike.losses.sampled import Sampled as Sampled
from lookalike.losses.search_range import SearchRange as SearchRange
from lookalike.losses.soft_triple import SoftTriple as SoftTriple
from lookalike.losses.table import LOSSES as LOSSES
from lookalike.losses.table import arguments_of as arguments_of
from lookalike.losses.table import check_arguments as check_arguments
