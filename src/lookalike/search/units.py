"""Vectors on their way into an index or its search: of the index's model, of its width, scaled to unit length."""

from collections.abc import Sequence

import numpy as np

from lookalike.errors import ArgumentError, first_line
from lookalike.search.engines import Floats
from lookalike.search.facts import IndexFacts


def to_units(embeddings: Floats, facts: IndexFacts, fingerprint: str, names: Sequence[str] = ()) -> Floats:
    """Vectors of unit length, after the checks that every vector passes on its way in."""
    if fingerprint != facts.fingerprint:
        raise ArgumentError(
            f"this index holds vectors of model {facts.fingerprint[:12]}, these are of model "
            f"{fingerprint[:12]}; embed with the index's model or build another index"
        )
    try:
        vectors = np.asarray(embeddings, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # the last of a tensor with a gradient
        raise ArgumentError(
            f"the vectors are no array of numbers ({first_line(error)}); expected (N, {facts.dim})"
        ) from error
    if vectors.ndim != 2 or vectors.shape[1] != facts.dim:
        raise ArgumentError(f"the vectors have shape {vectors.shape}; expected (N, {facts.dim})")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
    bad = ~np.isfinite(lengths) | (lengths == 0)
    if bad.any():
        first = int(bad.argmax())
        where = f" ('{names[first]}')" if first < len(names) else ""
        raise ArgumentError(
            f"vector {first}{where} is zero or not finite and cannot be normalized; {int(bad.sum())} in all"
        )
    units: Floats = (vectors / lengths[:, None]).astype(np.float32)
    return units
