"""Image embeddings trained with proxies, measured honestly, and searched.

The public names: each is loaded when it is first used, so `import lookalike` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lookalike.config.experiment import Experiment as Experiment
    from lookalike.data.dataset import LabeledImages as LabeledImages
    from lookalike.data.read import read as read
    from lookalike.data.samplers import BalancedBatches as BalancedBatches
    from lookalike.embedding import Embeddings as Embeddings
    from lookalike.embedding import embed as embed
    from lookalike.errors import LookalikeError as LookalikeError
    from lookalike.evaluation import RetrievalResult as RetrievalResult
    from lookalike.evaluation import evaluate as evaluate
    from lookalike.losses import LOSSES as LOSSES
    from lookalike.losses import HierarchicalProxyLoss as HierarchicalProxyLoss
    from lookalike.losses import ProxyAnchor as ProxyAnchor
    from lookalike.losses import ProxyGML as ProxyGML
    from lookalike.losses import ProxyLoss as ProxyLoss
    from lookalike.losses import ProxyNCA as ProxyNCA
    from lookalike.losses import ProxyNCAPlusPlus as ProxyNCAPlusPlus
    from lookalike.losses import SoftTriple as SoftTriple
    from lookalike.models.checkpoint import load_model as load_model
    from lookalike.models.embedder import Embedder as Embedder
    from lookalike.models.embedder import build_embedder as build_embedder
    from lookalike.ranking import nearest as nearest
    from lookalike.search.index import ImageIndex as ImageIndex
    from lookalike.training.context import RunOptions as RunOptions
    from lookalike.training.fit import fit as fit

_HOME = {
    "BalancedBatches": "data.samplers",
    "Embedder": "models.embedder",
    "Embeddings": "embedding",
    "Experiment": "config.experiment",
    "HierarchicalProxyLoss": "losses",
    "ImageIndex": "search.index",
    "LOSSES": "losses",
    "LabeledImages": "data.dataset",
    "LookalikeError": "errors",
    "ProxyAnchor": "losses",
    "ProxyGML": "losses",
    "ProxyLoss": "losses",
    "ProxyNCA": "losses",
    "ProxyNCAPlusPlus": "losses",
    "RetrievalResult": "evaluation",
    "RunOptions": "training.context",
    "SoftTriple": "losses",
    "build_embedder": "models.embedder",
    "embed": "embedding",
    "evaluate": "evaluation",
    "fit": "training.fit",
    "load_model": "models.checkpoint",
    "nearest": "ranking",
    "read": "data.read",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'lookalike' has no attribute '{name}'")
    value = getattr(importlib.import_module(f"lookalike.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
