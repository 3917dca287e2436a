"""Groups of classes in HPL: by chance, learned, or given; how strongly they count; how many there are.

    python benchmarks/hierarchy.py grocery.zip results.json [--seeds 5] [--classes 20] [--bases proxy_nca]
        [--features FILE.npy] [--per-group 6] [--size 192]

Frozen pretrained features of images at `--size` pixels (112) and a linear projection to 128 dimensions, trained with
a base loss alone and with the same loss on two levels. Half of the classes, chosen by seed, are never seen in training
and are scored. Every case is paired with its base by seed: same classes, same start, same order of batches.

`--classes` keeps that many of the classes to train. `--per-group` runs learned groups and groups by chance of that many
classes, instead of all cases. `--features` keeps the features for a second run. Settings of the losses are their
defaults; nothing was tuned. Prints and writes the paired gains with their 95 % Student intervals.
"""

import argparse
import json
from dataclasses import asdict, dataclass, field
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
from lookalike.evaluation.intervals import student_interval
from lookalike.losses import LOSSES, HierarchicalProxyLoss, MetricLoss
from lookalike.models.embedder import build_embedder

DIM, BATCH, EPOCHS = 128, 128, 15
BASES = ("proxy_nca", "norm_softmax", "proxy_anchor")
METRICS = ("recall_at_1", "map_at_r")


@dataclass(frozen=True)
class Case:
    """A second level over a base.

    Attributes:
        groups: where they come from: "chance", "learned" (k-means of the proxies) or "given" by the data.
        start: of the proxies: "class_mean" or "random".
        weight: of the coarse level.
        count: number of groups; that of the data when None.
        after: iterations before the first clustering.
    """

    groups: str
    start: str = "class_mean"
    weight: float = 1.0
    count: int | None = None
    after: int = 0


CASES = (
    Case("learned", start="random"),
    *(Case(groups, weight=weight) for groups in ("chance", "learned", "given") for weight in (0.1, 0.3, 1.0)),
    Case("learned", after=100),
    *(Case("learned", count=count) for count in (2, 5, 10)),
)


@dataclass(frozen=True)
class Problem:
    """Features and labels of seen and unseen classes, and the data's groups of the seen ones."""

    seen: Tensor
    labels: Tensor
    unseen: Tensor
    unseen_labels: np.ndarray = field(repr=False)
    given: np.ndarray | None
    seed: int

    @property
    def classes(self) -> int:
        """To train."""
        return int(self.labels.max()) + 1


def train(loss: MetricLoss, problem: Problem, start: str) -> torch.nn.Linear:
    """A projection trained on the features."""
    g = torch.Generator().manual_seed(problem.seed)
    projection = torch.nn.Linear(problem.seen.shape[1], DIM)
    torch.nn.init.orthogonal_(projection.weight, generator=g)
    torch.nn.init.zeros_(projection.bias)
    if start == "class_mean" and loss.proxy_loss is not None:
        loss.proxy_loss.initialize_proxies_at_class_means(projection(problem.seen).detach(), problem.labels)
    optimizer = torch.optim.AdamW(
        [{"params": projection.parameters(), "lr": 1e-3}, {"params": loss.parameters(), "lr": 1e-1}],
        weight_decay=1e-4,
    )
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(problem.labels), generator=g).split(BATCH):
            optimizer.zero_grad()
            value = loss(projection(problem.seen[rows]), problem.labels[rows])
            for parameter in loss.pop_reset_parameters():
                optimizer.state.pop(parameter, None)
            value.backward()
            optimizer.step()
    return projection


def score(loss: MetricLoss, problem: Problem, start: str) -> dict[str, float]:
    """Metrics of the unseen classes after training, and how far learned groups are the data's."""
    projection = train(loss, problem, start)
    with torch.no_grad():
        scores = evaluate(projection(problem.unseen), problem.unseen_labels, ks=(1,)).to_dict()
    found = {key: scores[key] for key in METRICS}
    if isinstance(loss, HierarchicalProxyLoss) and problem.given is not None:
        found["ami"] = adjusted_mutual_info_score(problem.given, loss.groups()[0])
    return found


def hierarchical(base: str, case: Case, problem: Problem) -> MetricLoss:
    """The loss of a case."""
    known = None if problem.given is None else int(problem.given.max()) + 1
    count = min(case.count or known or 10, problem.classes // 2)
    settings: dict[str, Any] = {"level_weights": (1.0, case.weight), "start_after": case.after}
    if case.groups == "learned":
        settings["coarse"] = (count,)
    elif case.groups == "chance":
        draws = np.random.default_rng(problem.seed)
        settings["parents"] = [draws.permutation(np.arange(problem.classes) % count)]
    else:
        settings["parents"] = [problem.given]
    generator = torch.Generator().manual_seed(problem.seed)
    return LOSSES["hierarchical"](problem.classes, DIM, base=base, generator=generator, **settings)


def problems(source: str, seeds: int, classes: int | None, cache: Path | None, size: int) -> list[Problem]:
    """One problem per seed: half of the classes are seen, of them at most `classes`."""
    table = read(source)
    if cache is None or not cache.exists():
        matrix = embed(build_embedder(embedding_dim=None, pooling="average", size=size), table).matrix
        if cache is not None:
            np.save(cache, matrix)
    else:
        matrix = np.load(cache)
    features = torch.from_numpy(matrix)
    row_of = {path: row for row, path in enumerate(table.paths)}
    found = []
    for seed in range(seeds):
        kept, held = hold_out_classes(table, fraction=0.5, seed=seed)
        if classes is not None:
            kept = kept.of_classes(range(min(classes, kept.num_classes)))
        groups = np.unique(kept.coarse[0].parents, return_inverse=True)[1] if kept.coarse else None
        found.append(
            Problem(
                seen=features[[row_of[path] for path in kept.paths]],
                labels=torch.tensor(kept.labels),
                unseen=features[[row_of[path] for path in held.paths]],
                unseen_labels=held.labels,
                given=groups,
                seed=seed,
            )
        )
    return found


def main() -> None:
    """Runs everything; see the top."""
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("results", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--bases", nargs="+", default=BASES, choices=BASES)
    parser.add_argument("--features", type=Path)
    parser.add_argument("--per-group", type=int)
    parser.add_argument("--size", type=int, default=112)
    wanted = parser.parse_args()
    torch.use_deterministic_algorithms(True)
    report: list[dict[str, Any]] = []
    all_problems = problems(wanted.source, wanted.seeds, wanted.classes, wanted.features, wanted.size)
    cases = CASES
    if wanted.per_group is not None:
        count = all_problems[0].classes // wanted.per_group
        cases = tuple(Case(groups, count=count) for groups in ("learned", "chance"))
    for base in wanted.bases:
        alone: dict[str, list[dict[str, float]]] = {}
        for start in {case.start: None for case in cases}:
            losses = [
                LOSSES[base](p.classes, DIM, generator=torch.Generator().manual_seed(p.seed))
                for p in all_problems
            ]
            alone[start] = [score(loss, p, start) for loss, p in zip(losses, all_problems, strict=True)]
            means = {key: float(np.mean([row[key] for row in alone[start]])) for key in METRICS}
            report.append({"base": base, "start": start, "alone": means})
            print(base, start, means, flush=True)
        for case in cases:
            if case.groups == "given" and all_problems[0].given is None:
                continue
            rows = [score(hierarchical(base, case, p), p, case.start) for p in all_problems]
            gains = {}
            for key in METRICS:
                pairs = zip(rows, alone[case.start], strict=True)
                interval = student_interval([100 * (row[key] - other[key]) for row, other in pairs])
                gains[key] = [round(value, 2) for value in (interval.low, interval.mean, interval.high)]
            known = [row["ami"] for row in rows if "ami" in row]
            ami = round(float(np.mean(known)), 2) if known else None
            report.append({"base": base, "case": asdict(case), "gain": gains, "ami": ami})
            print(base, case, gains, "ami", ami, flush=True)
    wanted.results.write_text(
        json.dumps({"seeds": wanted.seeds, "report": report}, indent=1, allow_nan=False), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
