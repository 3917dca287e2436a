"""ProxyGML with its selection taken literally: what nobody selected takes no part in the backward pass.

One dense product finds the cosines, block of samples by block; of each sample only k of the P entries are
kept, so both gradients are products with a sparse matrix.

Letters: see `classes.py`; k selected proxies of a sample, b samples in a block, g in a group of it that stays
in the cache, E entries selected in all, e in a chunk.
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from lookalike.losses.large.classes import chunk_classes, chunks, inverse_lengths
from lookalike.losses.large.gradients import loss_with_gradients

LONG_ROW = 4096
"""Proxies from which the largest cosines of a sample are looked for among those that reach a guessed bar."""


def proxy_gml_selected(
    embeddings_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    *,
    proxies_per_class: int,
    neighbors: int,
    scale: float,
    samples: int | None = None,
    rows: int = 2048,
) -> Tensor:
    """`losses.proxy_gml.proxy_gml` with positives always selected and mask "selected", of raw vectors.

    Args:
        samples: samples at a time; never more than D, so that their cosines fit where the gradient by the
            proxies is written later.
        rows: proxies at a time in the last pass.

    Extra memory: about 30 bytes for each of the B*k selected entries, and a few chunks of `rows` x D.
    """
    batch, dim = embeddings_BD.shape
    step = min(samples or batch, batch, dim)
    group = chunk_classes(len(proxies_PD), 1, 1, embeddings_BD.device)  # samples in the cache

    def compute(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        proxies_PD = proxies_PD.detach()  # embedding_bag prepares for a backward pass otherwise
        inverse_P = unit_BD.new_empty(len(proxies_PD))
        to_proxies_PD = unit_BD.new_empty(proxies_PD.shape) if want_proxies else None
        cosines = unit_BD.new_empty(step, len(proxies_PD)) if to_proxies_PD is None else to_proxies_PD
        num_classes = len(proxies_PD) // proxies_per_class
        value = unit_BD.new_zeros(())
        selected_Bk = torch.empty(batch, neighbors, dtype=torch.int32, device=unit_BD.device)
        weights_Bk = unit_BD.new_empty(batch, neighbors)
        along_P = unit_BD.new_zeros(len(proxies_PD))
        for first, end in chunks(batch, step):
            sims_bP = cosines.view(-1)[: (end - first) * len(proxies_PD)].view(end - first, -1)
            _fill_cosines(sims_bP, unit_BD[first:end], proxies_PD, inverse_P)
            of_block = (sims_bP, labels_B[first:end], selected_Bk[first:end], weights_Bk[first:end])
            for sims_gP, labels_g, selected_gk, weights_gk in zip(
                *(torch.split(x, group) for x in of_block), strict=True
            ):
                chosen_gk, cosines_gk = _select(sims_gP, labels_g, proxies_per_class, neighbors)
                values_g, slopes_gk = _classify(
                    cosines_gk, chosen_gk // proxies_per_class, labels_g,
                    scale=scale, num_classes=num_classes, one_each=proxies_per_class == 1,
                )  # fmt: skip
                value += values_g.sum()
                slopes_gk = slopes_gk.div_(batch)
                along_P.index_add_(0, chosen_gk.flatten(), (slopes_gk * cosines_gk).flatten())
                selected_gk.copy_(chosen_gk)
                weights_gk.copy_(slopes_gk.mul_(inverse_P.take(chosen_gk)))  # by raw proxies
        to_unit_BD = torch.zeros_like(unit_BD) if want_unit else None
        if want_unit or want_proxies:
            along_P.mul_(inverse_P).mul_(inverse_P)
            _products(selected_Bk, weights_Bk, along_P, unit_BD, proxies_PD, to_unit_BD, to_proxies_PD, rows)
        return value / batch, to_unit_BD, to_proxies_PD

    return loss_with_gradients([compute], embeddings_BD, [proxies_PD])


def _fill_cosines(sims_bP: Tensor, unit_bD: Tensor, proxies_PD: Tensor, inverse_P: Tensor) -> None:
    """Fills cosines and 1 / lengths. In chunks that stay in the cache the product is up to 1.6 times as fast."""
    step = chunk_classes(len(unit_bD), unit_bD.shape[1], 1, unit_bD.device)
    for first, end in chunks(len(proxies_PD), step):
        chunk_QD = proxies_PD[first:end]
        inverse_P[first:end] = inverse_lengths(chunk_QD)
        torch.mm(unit_bD, chunk_QD.T, out=sims_bP[:, first:end]).mul_(inverse_P[first:end])


def largest(keys_bP: Tensor, k: int) -> Tensor:
    """Columns (b, k) of the k largest keys of each row; on the CPU they rise, and of ties the first are taken.

    `topk` moves pairs of key and column about. On the CPU it is faster to find the k-th largest key alone and
    to look where the keys are not below it, and in long rows to do so among the few that are large at all.
    """
    if keys_bP.device.type != "cpu":
        return keys_bP.topk(k, dim=1, sorted=False).indices
    keys = keys_bP.numpy()
    if keys.shape[1] < LONG_ROW:
        return torch.from_numpy(_partitioned(keys, k))
    chosen = np.empty((len(keys), k), dtype=np.int64)
    for row, key_P in enumerate(keys):
        columns = _promising(key_P, k)
        chosen[row] = columns[_partitioned(key_P[None, columns], k)[0]]
    return torch.from_numpy(chosen)


def _partitioned(keys: NDArray[Any], k: int) -> NDArray[np.int64]:
    """`largest` by a partition of whole rows; NaN counts as the largest."""
    size = keys.shape[1]
    kept = ~(keys < np.partition(keys, size - k, axis=1)[:, size - k, None])
    for row in np.flatnonzero(kept.sum(axis=1, dtype=np.int32) > k):  # ties
        rising = np.argsort(keys[row, ::-1], kind="stable")
        kept[row] = False
        kept[row, size - 1 - rising[-k:]] = True
    return np.flatnonzero(kept).reshape(-1, k) - np.arange(0, kept.size, size)[:, None]


def _promising(key_P: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns with the k largest keys among them, a few more than k if one key in 16 tells where these begin."""
    sample_S = key_P[::16]
    expected = len(sample_S) * k / len(key_P)
    rank = math.ceil(expected + 4 * math.sqrt(expected))  # fewer than k keys reach it once in 30,000 rows
    if rank <= len(sample_S):
        reached = ~(key_P < np.partition(sample_S, len(sample_S) - rank)[len(sample_S) - rank])
        columns = np.flatnonzero(reached)
        if len(columns) >= k:
            return columns
    return np.arange(len(key_P))


def _select(
    sims_bP: Tensor, labels_b: Tensor, proxies_per_class: int, neighbors: int
) -> tuple[Tensor, Tensor]:
    """The own proxies and the nearest others, `neighbors` in all (b, k), and their cosines."""
    own_bN = labels_b[:, None] * proxies_per_class
    own_bN = own_bN + torch.arange(proxies_per_class, device=labels_b.device)
    own_cosines_bN = sims_bP.gather(1, own_bN)
    sims_bP.scatter_(1, own_bN, own_cosines_bN + 4)  # above any cosine
    chosen_bk = largest(sims_bP, neighbors)
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


def _products(
    selected_Bk: Tensor,
    weights_Bk: Tensor,
    along_P: Tensor,
    unit_BD: Tensor,
    proxies_PD: Tensor,
    to_unit_BD: Tensor | None,
    to_proxies_PD: Tensor | None,
    rows: int,
) -> None:
    """Adds weights times raw proxies to the embeddings' gradient, and fills the proxies': transposed weights
    times embeddings, less what lies along each proxy.

    Both are done for `rows` proxies at a time, which stay in the cache meanwhile.
    """
    batch, neighbors = selected_Bk.shape
    cuts = list(chunks(len(proxies_PD), rows))
    chunk_E = selected_Bk.view(-1) // rows
    order_E = _order(chunk_E)
    ends = torch.bincount(chunk_E, minlength=len(cuts)).cumsum(0).tolist()
    del chunk_E
    for (first, end), (begin, stop) in zip(cuts, pairwise([0, *ends]), strict=True):
        order_e, chunk_QD = order_E[begin:stop], proxies_PD[first:end]
        samples_e = order_e // neighbors
        columns_e = selected_Bk.view(-1).index_select(0, order_e).sub_(first)
        weights_e = weights_Bk.view(-1).index_select(0, order_e)
        if to_unit_BD is not None:
            to_unit_BD += _sums(chunk_QD, columns_e, weights_e, samples_e, batch)
        if to_proxies_PD is not None:
            order_e = _order(columns_e)
            samples_e, weights_e = samples_e.index_select(0, order_e), weights_e.index_select(0, order_e)
            sums_QD = _sums(unit_BD, samples_e, weights_e, columns_e, len(chunk_QD))
            along_Q1 = along_P[first:end, None]
            torch.addcmul(sums_QD, chunk_QD, along_Q1, value=-1, out=to_proxies_PD[first:end])


def _order(keys_E: Tensor) -> Tensor:
    """The stable order of numbers in 0..65535. Of two bytes numpy sorts by counting, several times faster."""
    if keys_E.device.type != "cpu":
        return keys_E.argsort(stable=True)
    return torch.from_numpy(np.argsort(keys_E.numpy().astype(np.uint16), kind="stable"))


def _sums(table_ND: Tensor, rows_e: Tensor, weights_e: Tensor, groups_e: Tensor, groups: int) -> Tensor:
    """Weighted sums (groups, D) of rows of the table. Entries come group by group, except `groups_e`, which may
    have any order: only the sizes of the groups are read."""
    sizes_G = torch.bincount(groups_e, minlength=groups)
    starts_G = (sizes_G.cumsum(0) - sizes_G).to(rows_e.dtype)
    return F.embedding_bag(rows_e, table_ND, starts_G, mode="sum", per_sample_weights=weights_e)
