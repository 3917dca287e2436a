"""How every system was trained: the recipes that the rows of the studies change.

    base         what all the papers do, and their networks
    four_papers  Proxy-Anchor, ProxyNCA++, ProxyGML
    hierarchy    HPL and its rivals
    compared     the systems that the four papers compare themselves with
    newer        systems newer than the four papers

Settings follow the authors' released code where it is public, because it is what produced the numbers; where
the paper's text differs, a comment or a caveat says so.

Tags in comments: [S] paper, [P] poster, [C] code, [D] derived, "ours" a choice where no source says.
"""

from lookalike.studies.recipes.base import BN_INCEPTION, RESNET50, dimension, network
from lookalike.studies.recipes.compared import (
    NORM_SOFTMAX_512,
    SEMIHARD,
    horde,
    margin,
    multi_similarity,
    norm_softmax,
    ranked_list,
    soft_triple,
)
from lookalike.studies.recipes.four_papers import (
    ENHANCEMENTS,
    proxy_anchor,
    proxy_gml,
    proxynca_pp,
    resnet50_of_proxy_anchor,
    without,
)
from lookalike.studies.recipes.hierarchy import (
    NCA,
    WHOLE,
    divide_and_conquer,
    hierarchical_triplet,
    hpl,
    hpl_folds,
)
from lookalike.studies.recipes.newer import potential_field, proxy_synthesis

__all__ = [
    "BN_INCEPTION",
    "ENHANCEMENTS",
    "NCA",
    "NORM_SOFTMAX_512",
    "RESNET50",
    "SEMIHARD",
    "WHOLE",
    "dimension",
    "divide_and_conquer",
    "hierarchical_triplet",
    "horde",
    "hpl",
    "hpl_folds",
    "margin",
    "multi_similarity",
    "network",
    "norm_softmax",
    "potential_field",
    "proxy_anchor",
    "proxy_gml",
    "proxy_synthesis",
    "proxynca_pp",
    "ranked_list",
    "resnet50_of_proxy_anchor",
    "soft_triple",
    "without",
]
