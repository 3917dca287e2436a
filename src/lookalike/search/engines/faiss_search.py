"""faiss where another package has loaded `faiss.contrib.torch_utils`, as pytorch-metric-learning does.

That module replaces `search` of every index class by one without `params`, which filters and Milvus Lite need.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any


def accept_search_params() -> None:
    """Lets `search` of every index class of faiss take `params` again, where it was replaced."""
    faiss: Any = sys.modules.get("faiss")
    if faiss is None or "params" in inspect.signature(faiss.IndexFlat.search).parameters:
        return
    for kind in vars(faiss).values():
        if inspect.isclass(kind) and "search_numpy" in vars(kind):
            replaceable: Any = kind
            replaceable.search = _with_params(replaceable.search, replaceable.search_numpy)


def _with_params(search: Callable[..., Any], search_numpy: Callable[..., Any]) -> Callable[..., Any]:
    def with_params(self: Any, x: Any, k: int, *, params: Any = None, **outputs: Any) -> Any:
        if params is None:
            return search(self, x, k, **outputs)
        return search_numpy(self, x, k, params=params, **outputs)

    return with_params
