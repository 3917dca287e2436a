"""Learned against given groups of classes, on a data set that has a real two-level hierarchy.

    python benchmarks/hierarchy.py grocery.zip results.json [tree.html [CASES]]

Frozen pretrained features of images at 112 pixels and a linear projection to 128 dimensions, trained with a
base loss alone, with HPL on learned groups and on the data set's own ones. Half of the classes, chosen by
seed, are never seen in training and are scored. All settings of the losses are their defaults; nothing was
tuned. Prints and writes mean and standard deviation over seeds. CASES is part of the names of the cases to
run.
"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_mutual_info_score
from torch import Tensor

from lookalike.data.read import read
from lookalike.data.splits import hold_out_classes
from lookalike.embedding import embed
from lookalike.evaluation import evaluate
from lookalike.losses import LOSSES, HierarchicalProxyLoss, MetricLoss
from lookalike.losses.class_tree import tree_text
from lookalike.models.embedder import build_embedder
from lookalike.reporting.hierarchy_page import tree_page

SIZE, DIM, BATCH, EPOCHS, SEEDS = 112, 128, 128, 30, (0, 1, 2)


def train(
    loss: MetricLoss, features: Tensor, labels: Tensor, seed: int, *, at_class_means: bool
) -> torch.nn.Linear:
    """A projection trained on the features."""
    g = torch.Generator().manual_seed(seed)
    projection = torch.nn.Linear(features.shape[1], DIM)
    torch.nn.init.orthogonal_(projection.weight, generator=g)
    if at_class_means and loss.proxy_loss is not None:
        loss.proxy_loss.initialize_proxies_at_class_means(projection(features).detach(), labels)
    optimizer = torch.optim.AdamW(
        [{"params": projection.parameters(), "lr": 1e-3}, {"params": loss.parameters(), "lr": 1e-1}],
        weight_decay=1e-4,
    )
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(labels), generator=g).split(BATCH):
            optimizer.zero_grad()
            value = loss(projection(features[rows]), labels[rows])
            for parameter in loss.pop_reset_parameters():
                optimizer.state.pop(parameter, None)
            value.backward()
            optimizer.step()
    return projection


def main(source: str, results: str, page: str = "", only: str = "") -> None:
    """Runs everything; see the top."""
    torch.use_deterministic_algorithms(True)
    table = read(source)
    backbone = build_embedder(embedding_dim=None, pooling="average", size=SIZE)
    features = torch.from_numpy(embed(backbone, table).matrix)
    row_of = {path: row for row, path in enumerate(table.paths)}
    rows: dict[str, list[dict[str, float]]] = {}
    tree: dict[str, Any] = {}
    for seed in SEEDS:
        kept, held = hold_out_classes(table, 0.5, seed=seed)
        seen = features[[row_of[path] for path in kept.paths]]
        unseen = features[[row_of[path] for path in held.paths]]
        seen_labels = torch.tensor(kept.labels)
        _, given = np.unique(kept.coarse[0].parents, return_inverse=True)
        groups = int(given.max()) + 1
        for base in ("proxy_anchor", "norm_softmax"):
            cases: dict[str, tuple[str, dict[str, Any]]] = {base: (base, {})}
            for mode in ("free", "means"):
                common = {"base": base, "coarse_mode": mode}
                cases[f"{base} + learned groups, {mode}"] = ("hierarchical", {**common, "coarse": (groups,)})
                late = {**common, "coarse": (groups,), "start_after": 100}
                cases[f"{base} + groups learned from step 100, {mode}"] = ("hierarchical", late)
                cases[f"{base} + given groups, {mode}"] = ("hierarchical", {**common, "parents": [given]})
                cases[f"{base} + learned groups, class means, {mode}"] = cases[
                    f"{base} + learned groups, {mode}"
                ]
            for case, (name, settings) in cases.items():
                if only not in case:
                    continue
                generator = torch.Generator().manual_seed(seed)
                loss = LOSSES[name](kept.num_classes, DIM, **settings, generator=generator)
                projection = train(loss, seen, seen_labels, seed, at_class_means="class means" in case)
                with torch.no_grad():
                    scores = evaluate(projection(unseen), held.labels, ks=(1,)).to_dict()
                row = {key: scores[key] for key in ("recall_at_1", "map_at_r")}
                if isinstance(loss, HierarchicalProxyLoss):
                    row["ami_with_given"] = adjusted_mutual_info_score(given, loss.groups()[0])
                    tree = loss.tree(kept.class_names) if "class means, free" in case else tree
                rows.setdefault(case, []).append(row)
                print(seed, case, row, flush=True)
    summary = {
        case: {
            key: [statistics.mean(r[key] for r in found), statistics.stdev(r[key] for r in found)]
            for key in found[0]
        }
        for case, found in rows.items()
    }
    Path(results).write_text(
        json.dumps({"seeds": SEEDS, "rows": rows, "mean_and_deviation": summary}, indent=1)
    )
    print(json.dumps(summary, indent=1))
    print(tree_text(tree))
    if page:
        Path(page).write_text(tree_page(tree, "Groceries that the loss grouped"), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
