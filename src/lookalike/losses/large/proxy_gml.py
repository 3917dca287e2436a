"""ProxyGML with its selection taken literally: what nobody selected takes no part in the backward pass.

One dense product finds the cosines, block of samples by block; of each sample only k of the P entries are
kept, so both gradients are products with a sparse matrix.

Letters: see `classes.py`; k selected proxies of a sample, K rows of proxies in a block.
"""

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from lookalike.losses.large.classes import chunks, inverse_lengths
from lookalike.losses.large.gradients import loss_with_gradients

BLOCK_ENTRIES = 2**24
"""Cosines at a time: 64 MB of float32."""


def proxy_gml_selected(
    embeddings_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    *,
    proxies_per_class: int,
    neighbors: int,
    scale: float,
    samples: int | None = None,
    rows: int = 1024,
) -> Tensor:
    """`losses.proxy_gml.proxy_gml` with positives always selected and mask "selected", of raw vectors.

    Args:
        samples: samples at a time.
        rows: proxies at a time in the last pass.

    Extra memory: one block of cosines, and 16 bytes for each of the B*k selected entries.
    """
    batch = len(embeddings_BD)
    step = samples or max(16, BLOCK_ENTRIES // len(proxies_PD))

    def compute(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        inverse_P = inverse_lengths(proxies_PD)
        num_classes = len(proxies_PD) // proxies_per_class
        value = unit_BD.new_zeros(())
        to_unit_BD = torch.empty_like(unit_BD) if want_unit else None
        selected_Bk = torch.empty(batch, neighbors, dtype=torch.int64, device=unit_BD.device)
        weights_Bk = unit_BD.new_empty(batch, neighbors)
        along_P = unit_BD.new_zeros(len(proxies_PD))
        for first, end in chunks(batch, step):
            sims_bP = (unit_BD[first:end] @ proxies_PD.T).mul_(inverse_P)
            chosen_bk, cosines_bk = _select(sims_bP, labels_B[first:end], proxies_per_class, neighbors)
            values_b, slopes_bk = _classify(
                cosines_bk, chosen_bk // proxies_per_class, labels_B[first:end],
                scale=scale, num_classes=num_classes, one_each=proxies_per_class == 1,
            )  # fmt: skip
            value += values_b.sum()
            slopes_bk = slopes_bk.div_(batch)
            along_P.index_add_(0, chosen_bk.flatten(), (slopes_bk * cosines_bk).flatten())
            selected_Bk[first:end] = chosen_bk
            weights_Bk[first:end] = slopes_bk.mul_(inverse_P[chosen_bk])  # by raw proxies
            if to_unit_BD is not None:
                to_unit_BD[first:end] = F.embedding_bag(
                    chosen_bk, proxies_PD, mode="sum", per_sample_weights=weights_Bk[first:end]
                )
        to_proxies_PD = None
        if want_proxies:
            along_P.mul_(inverse_P).mul_(inverse_P)
            to_proxies_PD = _scatter(selected_Bk, weights_Bk, unit_BD, proxies_PD, along_P, rows)
        return value / batch, to_unit_BD, to_proxies_PD

    return loss_with_gradients(compute, embeddings_BD, proxies_PD)


def _select(
    sims_bP: Tensor, labels_b: Tensor, proxies_per_class: int, neighbors: int
) -> tuple[Tensor, Tensor]:
    """The own proxies and the nearest others, `neighbors` in all (b, k), and their cosines."""
    own_bN = labels_b[:, None] * proxies_per_class
    own_bN = own_bN + torch.arange(proxies_per_class, device=labels_b.device)
    own_cosines_bN = sims_bP.gather(1, own_bN)
    sims_bP.scatter_(1, own_bN, own_cosines_bN + 4)  # above any cosine
    chosen_bk = sims_bP.topk(neighbors, dim=1, sorted=False).indices
    sims_bP.scatter_(1, own_bN, own_cosines_bN)
    return chosen_bk, sims_bP.gather(1, chosen_bk)


def _classify(
    cosines_bk: Tensor,
    classes_bk: Tensor,
    labels_b: Tensor,
    *,
    scale: float,
    num_classes: int,
    one_each: bool,
) -> tuple[Tensor, Tensor]:
    """-log softmax over the classes in the graph, at the own class, and slopes by the selected cosines."""
    if one_each:  # every selected proxy is a class, and the own one is among them
        own_bk = classes_bk == labels_b[:, None]
        log_shares_bk = (cosines_bk * scale).log_softmax(dim=1)
        values_b = -log_shares_bk.masked_fill(~own_bk, 0).sum(dim=1)
        return values_b, log_shares_bk.exp_().sub_(own_bk.to(cosines_bk.dtype)).mul_(scale)
    own_b1 = labels_b[:, None]
    sums_bC = cosines_bk.new_zeros(len(labels_b), num_classes).scatter_add_(1, classes_bk, cosines_bk)
    outside_bC = torch.ones_like(sums_bC, dtype=torch.bool).scatter_(1, classes_bk, False)
    outside_bC.scatter_(1, own_b1, False)
    log_shares_bC = sums_bC.mul_(scale).masked_fill_(outside_bC, -torch.inf).log_softmax(dim=1)
    values_b = -log_shares_bC.gather(1, own_b1)[:, 0]
    slopes_bk = log_shares_bC.gather(1, classes_bk).exp_().sub_((classes_bk == own_b1).to(cosines_bk.dtype))
    return values_b, slopes_bk.mul_(scale)


def _scatter(
    selected_Bk: Tensor, weights_Bk: Tensor, unit_BD: Tensor, proxies_PD: Tensor, along_P: Tensor, rows: int
) -> Tensor:
    """Gradient of raw proxies: transposed weights times embeddings, less what lies along each proxy."""
    sorted_E, order_E = selected_Bk.flatten().to(torch.int32).sort()
    counts_P = torch.bincount(sorted_E, minlength=len(proxies_PD))
    starts = torch.cat([counts_P.new_zeros(1), counts_P.cumsum(0)])
    samples_E = order_E // selected_Bk.shape[1]
    weights_E = weights_Bk.flatten()[order_E]
    to_proxies_PD = torch.empty_like(proxies_PD)
    cuts = list(chunks(len(proxies_PD), rows))
    entries = starts[[first for first, _ in cuts] + [len(proxies_PD)]].tolist()
    for (first, end), (begin, stop) in zip(cuts, pairwise(entries), strict=True):
        sums_KD = F.embedding_bag(
            samples_E[begin:stop],
            unit_BD,
            starts[first:end] - begin,
            mode="sum",
            per_sample_weights=weights_E[begin:stop],
        )
        along_K1 = along_P[first:end, None]
        torch.addcmul(sums_KD, proxies_PD[first:end], along_K1, value=-1, out=to_proxies_PD[first:end])
    return to_proxies_PD
