"""ProxyGML with its selection taken literally: what nobody selected takes no part in the backward pass.

The first pass finds the cosines, block of samples by block, and of each sample the k of the P entries that are
selected; the second goes through the proxies in chunks, where both gradients are products with a sparse matrix.

The selected entries are kept from the first pass while there are few of them. Where there are many, the first
pass keeps of each sample only how large a cosine has to be to be selected, and the second computes the
cosines again: one product more, and no memory that grows with their number.

Letters: see `classes.py`; k selected proxies of a sample, b samples in a block, g in a group of it that stays
in the cache, E entries selected in all, e in a chunk.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from lookalike.losses.kernels.autograd import loss_with_gradients
from lookalike.losses.kernels.common import chunk_classes, chunk_entries, chunks, inverse_lengths
from lookalike.losses.kernels.topk import largest

KEPT_ENTRIES = 2**20
"""Selected entries are kept up to this number (about 35 MB), and found again above it."""
COSINES_AT_ONCE = 2**23
"""Cosines of the first pass (32 MB) where the gradient by the proxies is not wanted and lends them no room."""
OWN = 4.0
"""Added to the cosines of own proxies before the largest are selected: above any difference of cosines."""


def proxy_gml_selected(
    embeddings_BD: Tensor,
    proxies_PD: Tensor,
    labels_B: Tensor,
    *,
    proxies_per_class: int,
    neighbors: int,
    scale: float,
    samples: int | None = None,
    chunk: int | None = None,
    keep: bool | None = None,
) -> Tensor:
    """`losses.proxy_gml.proxy_gml` with positives always selected and mask "selected", of raw vectors.

    Args:
        samples: samples at a time; never more than D, so that their cosines fit where the gradient by the
            proxies is written later.
        chunk: classes at a time; chosen for the cache when None.
        keep: whether selected entries are kept for the second pass; chosen by their number when None.

    Extra memory: about 30 bytes for each of the B*k selected entries if they are kept, and a few chunks.
    """

    def compute(
        unit_BD: Tensor, proxies_PD: Tensor, want_unit: bool, want_proxies: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        (batch, dim), num_proxies = unit_BD.shape, len(proxies_PD)
        to_unit_BD = torch.zeros_like(unit_BD) if want_unit else None
        to_proxies_PD = torch.empty_like(proxies_PD) if want_proxies else None
        fitting = dim if want_proxies else max(1, COSINES_AT_ONCE // num_proxies)
        block = min(samples or batch, batch, fitting)
        room = unit_BD.new_empty(block * num_proxies) if to_proxies_PD is None else to_proxies_PD.view(-1)
        rows = proxies_per_class * (chunk or chunk_classes(batch, dim, proxies_per_class, unit_BD.device))
        graph = _Graph(
            unit_BD,
            proxies_PD.detach(),  # embedding_bag prepares for a backward pass otherwise
            labels_B,
            proxies_per_class=proxies_per_class,
            neighbors=neighbors,
            scale=scale,
            samples=block,
            rows=min(rows, num_proxies),
        )
        kept = batch * neighbors <= KEPT_ENTRIES if keep is None else keep
        memory = _Kept(graph) if kept else _FoundAgain(graph)
        value = _first_pass(graph, memory, room)
        if want_unit or want_proxies:
            _second_pass(graph, memory, to_unit_BD, to_proxies_PD)
        return value, to_unit_BD, to_proxies_PD

    return loss_with_gradients([compute], embeddings_BD, [proxies_PD])


class _Graph:
    """Samples and proxies, in blocks of `samples` samples and chunks of `rows` proxies, and their cosines.

    Cosines are the same to the last bit whenever they are asked for: one product in one buffer finds them.
    """

    def __init__(
        self,
        unit_BD: Tensor,
        proxies_PD: Tensor,
        labels_B: Tensor,
        *,
        proxies_per_class: int,
        neighbors: int,
        scale: float,
        samples: int,
        rows: int,
    ) -> None:
        self.unit_BD, self.proxies_PD, self.labels_B = unit_BD, proxies_PD, labels_B
        self.per_class, self.neighbors, self.scale = proxies_per_class, neighbors, scale
        self.blocks = [slice(*ends) for ends in chunks(len(unit_BD), samples)]
        self.chunks = [slice(*ends) for ends in chunks(len(proxies_PD), rows)]
        self.inverse_P = torch.cat([inverse_lengths(proxies_PD[chunk]) for chunk in self.chunks])
        self._buffer = unit_BD.new_empty(samples * rows)

    def cosines(self, block: slice, chunk: slice, out_bQ: Tensor | None = None) -> Tensor:
        """Cosines (b, Q); without a place to put them in they last until the next are asked for."""
        unit_bD, chunk_QD = self.unit_BD[block], self.proxies_PD[chunk]
        sims_bQ = self._buffer[: len(unit_bD) * len(chunk_QD)].view(len(unit_bD), -1)
        torch.mm(unit_bD, chunk_QD.T, out=sims_bQ)
        return torch.mul(sims_bQ, self.inverse_P[chunk], out=sims_bQ if out_bQ is None else out_bQ)


@dataclass(frozen=True)
class _Chosen:
    """The chosen proxies of the samples `group`, their cosines, the losses, and slopes of the mean loss."""

    group: slice
    proxies_gk: Tensor
    cosines_gk: Tensor
    values_g: Tensor
    slopes_gk: Tensor


@dataclass(frozen=True)
class _Entries:
    """The chosen entries of the cosines with a chunk of proxies: rising samples, and rising columns of each.

    `weights_e` are slopes by the products with raw proxies, `along_Q` the sums of slope times cosine.
    """

    chunk: slice
    samples_e: Tensor
    columns_e: Tensor
    weights_e: Tensor
    along_Q: Tensor


class _Memory(ABC):
    """What the first pass leaves for the second."""

    @abstractmethod
    def add(self, chosen: _Chosen) -> None:
        """Takes what was chosen for some samples."""

    @abstractmethod
    def entries(self) -> Iterator[_Entries]:
        """Those of all samples, chunk by chunk."""


class _Kept(_Memory):
    """The entries are kept."""

    def __init__(self, graph: _Graph) -> None:
        self._graph, shape = graph, (len(graph.labels_B), graph.neighbors)
        self._proxies_Bk = graph.labels_B.new_empty(shape, dtype=torch.int32)
        self._weights_Bk = graph.unit_BD.new_empty(shape)
        self._along_P = torch.zeros_like(graph.inverse_P)

    def add(self, chosen: _Chosen) -> None:
        proxies_gk, slopes_gk = chosen.proxies_gk, chosen.slopes_gk
        self._along_P.index_add_(0, proxies_gk.flatten(), (slopes_gk * chosen.cosines_gk).flatten())
        self._proxies_Bk[chosen.group] = proxies_gk
        self._weights_Bk[chosen.group] = slopes_gk * self._graph.inverse_P.take(proxies_gk)

    def entries(self) -> Iterator[_Entries]:
        cuts = self._graph.chunks
        proxies_E, weights_E = self._proxies_Bk.view(-1), self._weights_Bk.view(-1)
        chunk_E = proxies_E // cuts[0].stop
        order_E = _order(chunk_E, len(cuts))
        ends = torch.bincount(chunk_E, minlength=len(cuts)).cumsum(0).tolist()
        del chunk_E
        for chunk, (first, end) in zip(cuts, pairwise([0, *ends]), strict=True):
            order_e = order_E[first:end]
            columns_e = proxies_E.index_select(0, order_e).sub_(chunk.start)
            samples_e, weights_e = order_e // self._graph.neighbors, weights_E.index_select(0, order_e)
            yield _Entries(chunk, samples_e, columns_e, weights_e, self._along_P[chunk])


class _FoundAgain(_Memory):
    """Of each sample is kept how large a cosine has to be to be chosen, and the log-sum-exp of its classes."""

    def __init__(self, graph: _Graph) -> None:
        self._graph = graph
        self._bar_B = torch.empty_like(graph.unit_BD[:, 0])  # the smallest chosen key
        self._last_B = torch.empty_like(graph.labels_B)  # the last chosen column that has it
        self._log_sums_B = torch.empty_like(self._bar_B)

    def add(self, chosen: _Chosen) -> None:
        graph, group = self._graph, chosen.group
        own_gk = chosen.proxies_gk // graph.per_class == graph.labels_B[group, None]
        keys_gk = chosen.cosines_gk + OWN * own_gk
        bar_g1 = keys_gk.amin(dim=1, keepdim=True)
        self._bar_B[group] = bar_g1[:, 0]
        self._last_B[group] = chosen.proxies_gk.masked_fill(keys_gk > bar_g1, -1).amax(dim=1)
        self._log_sums_B[group] = chosen.values_g + graph.scale * (chosen.cosines_gk * own_gk).sum(dim=1)

    def entries(self) -> Iterator[_Entries]:
        for chunk in self._graph.chunks:
            of_blocks = [self._entries(block, chunk) for block in self._graph.blocks]
            samples_e, columns_e, slopes_e, cosines_e = (
                torch.cat(parts) for parts in zip(*of_blocks, strict=True)
            )
            inverse_Q = self._graph.inverse_P[chunk]
            along_Q = torch.zeros_like(inverse_Q).index_add_(0, columns_e, slopes_e * cosines_e)
            yield _Entries(chunk, samples_e, columns_e, slopes_e.mul_(inverse_Q.take(columns_e)), along_Q)

    def _entries(self, block: slice, chunk: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Samples, columns, slopes and cosines of the chosen entries of a block of samples."""
        graph, sims_bQ = self._graph, self._graph.cosines(block, chunk)
        size = sims_bQ.shape[1]
        column_Q = torch.arange(chunk.start, chunk.stop, device=sims_bQ.device)
        own_bQ = (column_Q // graph.per_class == graph.labels_B[block, None]).to(sims_bQ.dtype)
        keys_bQ, bar_b1 = torch.add(sims_bQ, own_bQ, alpha=OWN), self._bar_B[block, None]
        tied_bQ = (keys_bQ == bar_b1).logical_and_(column_Q <= self._last_B[block, None])
        chosen_bQ = (keys_bQ > bar_b1).logical_or_(tied_bQ)
        at_e = chosen_bQ.view(-1).nonzero()[:, 0]
        samples_e, columns_e = at_e // size, at_e % size
        cosines_e = sims_bQ.view(-1).index_select(0, at_e)
        sums_e = cosines_e
        if graph.per_class > 1:
            sums_bc = (sims_bQ * chosen_bQ).view(len(sims_bQ), -1, graph.per_class).sum(dim=2)
            sums_e = sums_bc.view(-1).index_select(0, at_e // graph.per_class)
        log_shares_e = sums_e * graph.scale - self._log_sums_B[block].index_select(0, samples_e)
        slopes_e = log_shares_e.exp_().sub_(own_bQ.view(-1).index_select(0, at_e))
        return samples_e + block.start, columns_e, slopes_e.mul_(graph.scale / len(graph.labels_B)), cosines_e


def _first_pass(graph: _Graph, memory: _Memory, room: Tensor) -> Tensor:
    """Chooses, and returns the loss. The cosines of a block of samples are put into `room`."""
    batch, num_proxies = len(graph.labels_B), len(graph.proxies_PD)
    at_once = max(1, chunk_entries(room.device) // num_proxies)
    value = room.new_zeros(())
    for block in graph.blocks:
        sims_bP = room[: (block.stop - block.start) * num_proxies].view(-1, num_proxies)
        for chunk in graph.chunks:
            graph.cosines(block, chunk, out_bQ=sims_bP[:, chunk])
        for first, end in chunks(len(sims_bP), at_once):
            group = slice(block.start + first, block.start + end)
            labels_g = graph.labels_B[group]
            proxies_gk, cosines_gk = _select(sims_bP[first:end], labels_g, graph.per_class, graph.neighbors)
            values_g, slopes_gk = _classify(
                cosines_gk, proxies_gk // graph.per_class, labels_g,
                scale=graph.scale, num_classes=num_proxies // graph.per_class, one_each=graph.per_class == 1,
            )  # fmt: skip
            value += values_g.sum()
            memory.add(_Chosen(group, proxies_gk, cosines_gk, values_g, slopes_gk.div_(batch)))
    return value / batch


def _second_pass(
    graph: _Graph, memory: _Memory, to_unit_BD: Tensor | None, to_proxies_PD: Tensor | None
) -> None:
    """Adds weights times raw proxies to the embeddings' gradient, and fills the proxies': transposed weights
    times embeddings, less what lies along each proxy. Both are done for a chunk of proxies while it is in the
    cache."""
    for entries in memory.entries():
        chunk_QD, columns_e = graph.proxies_PD[entries.chunk], entries.columns_e
        samples_e, weights_e = entries.samples_e, entries.weights_e
        if to_unit_BD is not None:
            to_unit_BD += _sums(chunk_QD, columns_e, weights_e, samples_e, len(to_unit_BD))
        if to_proxies_PD is not None:
            order_e = _order(columns_e, len(chunk_QD))
            samples_e, weights_e = samples_e.index_select(0, order_e), weights_e.index_select(0, order_e)
            sums_QD = _sums(graph.unit_BD, samples_e, weights_e, columns_e, len(chunk_QD))
            along_Q = entries.along_Q * graph.inverse_P[entries.chunk].square()
            torch.addcmul(sums_QD, chunk_QD, along_Q[:, None], value=-1, out=to_proxies_PD[entries.chunk])


def _select(
    sims_bP: Tensor, labels_b: Tensor, proxies_per_class: int, neighbors: int
) -> tuple[Tensor, Tensor]:
    """The own proxies and the nearest others, `neighbors` in all (b, k), and their cosines."""
    own_bN = labels_b[:, None] * proxies_per_class
    own_bN = own_bN + torch.arange(proxies_per_class, device=labels_b.device)
    own_cosines_bN = sims_bP.gather(1, own_bN)
    sims_bP.scatter_(1, own_bN, own_cosines_bN + OWN)
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


def _order(keys_E: Tensor, end: int) -> Tensor:
    """The stable order of numbers from 0 to end - 1. Of two bytes numpy sorts by counting, several times faster."""
    if keys_E.device.type == "cpu" and end <= 2**16:
        return torch.from_numpy(np.argsort(keys_E.numpy().astype(np.uint16), kind="stable"))
    return keys_E.argsort(stable=True)


def _sums(table_ND: Tensor, rows_e: Tensor, weights_e: Tensor, groups_e: Tensor, groups: int) -> Tensor:
    """Weighted sums (groups, D) of rows of the table. Entries come group by group, except `groups_e`, which may
    have any order: only the sizes of the groups are read."""
    sizes_G = torch.bincount(groups_e, minlength=groups)
    starts_G = (sizes_G.cumsum(0) - sizes_G).to(rows_e.dtype)
    return F.embedding_bag(rows_e, table_ND, starts_G, mode="sum", per_sample_weights=weights_e)
