"""Retrieval metrics in plain loops: every query ranked on its own, every formula written out."""

import numpy as np


def similarity_of(query, row, similarity):
    """float64, exact for the small integers that the tests use."""
    query, row = query.astype(np.float64), row.astype(np.float64)
    if similarity == "dot":
        return float(query @ row)
    if similarity == "euclidean":
        return -float(((query - row) ** 2).sum())
    lengths = np.sqrt((query**2).sum()) * np.sqrt((row**2).sum())
    return float(query @ row) / lengths if lengths else 0.0


def metrics_of_ranking(relevant, ks):
    """`relevant`: True or False for each gallery row, nearest first."""
    total = sum(relevant)
    values = {}
    for k in ks:
        top = relevant[:k]
        values[f"recall_at_{k}"] = float(any(top))
        values[f"precision_at_{k}"] = sum(top) / min(k, len(relevant))
        values[f"ir_recall_at_{k}"] = sum(top) / total
    values["r_precision"] = sum(relevant[:total]) / total
    values["map_at_r"] = sum(sum(relevant[: j + 1]) / (j + 1) for j in range(total) if relevant[j]) / total
    values["mrr"] = 1 / (relevant.index(True) + 1)
    return values


def one_query(query, label, own, gallery, gallery_labels, ks, similarity):
    """Metrics of one query, equally similar rows in order of index; None without a match."""
    scored = [
        (similarity_of(query, row, similarity), g) for g, row in enumerate(gallery) if own is None or g != own
    ]
    if not any(gallery_labels[g] == label for _, g in scored):
        return None
    ranked = sorted(scored, key=lambda pair: (-pair[0], pair[1]))
    return metrics_of_ranking([bool(gallery_labels[g] == label) for _, g in ranked], ks)
