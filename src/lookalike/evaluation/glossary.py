"""What each metric means, in words: read from METRICS for `lookalike list metrics` and the reference page."""

from lookalike.evaluation.metrics import METRICS

NOTATION = (
    "For each query: R = gallery rows of its class (its own row never counts), "
    "h_k = how many of them are among the k nearest, rank_m = rank of the m-th nearest of them. "
    "A query with R = 0 has no match: it is left out and counted, or scores 0 with no_match='miss'. "
    "Values are means over queries; class_average is the mean over classes of each class's mean."
)


def reference_table() -> str:
    """The table of docs/reference/metrics.md."""
    lines = ["| key | name | value of a query, or of all clusters |", "|---|---|---|"]
    lines += [f"| `{one.key}` | {one.title} | {one.formula} |" for one in METRICS.values()]
    return "\n".join(lines)


def reference_sections() -> str:
    """One section per metric of docs/reference/metrics.md."""
    return "\n\n".join(
        f"### `{one.key}`\n\n{one.title}: `{one.formula}`. {one.meaning}\n\nElsewhere: {one.elsewhere}"
        for one in METRICS.values()
    )
