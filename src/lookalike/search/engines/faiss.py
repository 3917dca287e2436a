"""The faiss engine: an approximate structure over the vector file, chosen by the number of vectors.

Below 50,000 vectors there is no structure and the search is exact; from there on a graph (HNSW, on 16-bit
floats); from a million on inverted lists with product codes (IVF-PQ), which take a fortieth of the memory.
The structure only proposes candidates: their similarities are computed from the stored vectors. Vectors that
came after the structure was built, and filters that leave little, are compared exactly. The structure is
stored next to the vectors, so opening an index builds nothing.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lookalike.search.engines.base import EngineLocation, Floats, Ints, Neighbors
from lookalike.search.engines.exact import search_file, search_rows, usable_rows
from lookalike.search.engines.faiss_search import accept_search_params
from lookalike.search.engines.on_files import FileEngine
from lookalike.utils.io import write_atomically
from lookalike.utils.validation import optional_import


@dataclass(frozen=True)
class FaissSettings:
    """When which structure is built, and how hard it searches.

    Attributes:
        hnsw_from, lists_from: numbers of vectors from which there is a graph, or inverted lists.
        links: neighbors that each vector keeps in the graph.
        build_breadth, breadth: candidates that the graph keeps while it is built and searched.
        code_dims, code_bits: dimensions per product code, and its bits.
        probes: inverted lists that a query reads.
        refine: candidates of the product codes that are compared exactly, as a multiple of k, at least 200.
        exact_share: a filter that leaves fewer than this share of the vectors is answered exactly.
    """

    hnsw_from: int = 50_000
    lists_from: int = 1_000_000
    links: int = 32
    build_breadth: int = 128
    breadth: int = 128
    code_dims: int = 8
    code_bits: int = 8
    probes: int = 64
    refine: int = 20
    exact_share: float = 0.02


class FaissEngine(FileEngine):
    """Approximate search on one machine; needs the extra `faiss`."""

    def __init__(self, location: EngineLocation, settings: FaissSettings | None = None) -> None:
        self._faiss = optional_import("faiss", "faiss")
        self._settings = settings or FaissSettings()
        super().__init__(location)
        self._structure: Any = None
        self._covered = 0
        self._load()

    def delete(self, ids_N: Ints) -> None:
        """See `Engine`."""
        before = self._file.generation
        super().delete(ids_N)
        if self._file.generation != before:
            self._structure, self._covered = None, 0

    def close(self) -> None:
        """Frees the structure."""
        self._structure = None

    def search(self, queries_QD: Floats, k: int, *, allowed: Ints | None = None) -> Neighbors:
        """See `Engine`; queries that the structure leaves with fewer than k candidates are answered exactly."""
        rows = usable_rows(self._file, allowed)
        usable = len(self._file) if rows is None else len(rows)
        k = min(k, usable)
        few = usable <= max(4 * k, self._settings.exact_share * len(self._file))
        if self._structure is None or few or not len(queries_QD):
            return search_file(self._file, queries_QD, k, rows)
        queries = np.array(queries_QD, dtype=np.float32)
        tail = np.arange(self._covered, len(self._file)) if rows is None else rows[rows >= self._covered]
        candidates = np.concatenate(
            [self._candidates(queries, k, rows), self._best(queries, k, tail)], axis=1
        )
        return self._refined(queries, k, candidates, rows)

    def save(self) -> None:
        """Builds the structure if there are enough vectors, or adds to it what came since, and stores it."""
        wanted = self._wanted()
        if wanted is None:
            return
        stored = self._stored()
        if self._structure is None or not stored or stored[-1][0] != wanted:
            self._structure, self._covered = self._trained(wanted), 0
        matrix = self._file.matrix()
        step = 65_536
        for start in range(self._covered, len(self._file), step):
            self._structure.add(matrix[start : start + step].numpy())
        changed = self._covered != len(self._file)
        self._covered = len(self._file)
        target = self._file.folder / f"{wanted}-{self._file.generation}-{self._covered}.faiss"
        if changed or not target.exists():
            write_atomically(target, lambda file: self._faiss.write_index(self._structure, str(file)))
        for _, _, _, file in self._stored():
            if file != target:
                file.unlink(missing_ok=True)

    def _wanted(self) -> str | None:
        count = self._file.live
        if count < self._settings.hnsw_from:
            return None
        return "hnsw" if count < self._settings.lists_from else "ivfpq"

    def _stored(self) -> list[tuple[str, int, int, Path]]:
        """Structures on disk: kind, generation, covered rows, file; the most useful last."""
        found = []
        for file in self._file.folder.glob("*.faiss"):
            kind, generation, covered = file.stem.split("-")
            found.append((kind, int(generation), int(covered), file))
        return sorted(found, key=lambda entry: entry[1:3])

    def _load(self) -> None:
        for _, generation, covered, file in reversed(self._stored()):
            if generation == self._file.generation and covered <= len(self._file):
                try:
                    self._structure, self._covered = self._faiss.read_index(str(file)), covered
                except RuntimeError:  # replaced by a writer since it was listed; the vectors are complete
                    continue
                return

    def _trained(self, kind: str) -> Any:
        faiss, settings, dim = self._faiss, self._settings, self._file.dim
        product = faiss.METRIC_INNER_PRODUCT
        if kind == "hnsw":
            graph = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_fp16, settings.links, product)
            graph.hnsw.efConstruction = settings.build_breadth
            graph.train(self._file.matrix()[:1].numpy())  # 16-bit floats learn nothing, and faiss asks for it
            return graph
        lists = max(1, 2 ** round(np.log2(2 * np.sqrt(len(self._file)))))
        codes = max(
            code
            for code in range(1, dim + 1)
            if dim % code == 0 and code <= max(1, dim // settings.code_dims)
        )
        structure = faiss.IndexIVFPQ(faiss.IndexFlatIP(dim), dim, lists, codes, settings.code_bits, product)
        structure.cp.niter = 10
        draws = np.random.default_rng(0)
        sample = np.sort(draws.choice(len(self._file), min(len(self._file), 50 * lists), replace=False))
        structure.train(self._file.matrix()[torch.from_numpy(sample)].numpy())
        return structure

    def _candidates(self, queries: Floats, k: int, rows: Ints | None) -> Ints:
        """Rows (Q, C) that the structure proposes; -1 where it has none."""
        faiss, settings = self._faiss, self._settings
        selector = None
        if rows is not None:
            mask = np.zeros(self._covered, dtype=bool)
            mask[rows[rows < self._covered]] = True
            selector = faiss.IDSelectorBitmap(np.packbits(mask, bitorder="little"))
        if hasattr(self._structure, "hnsw"):
            wanted = k
            options = faiss.SearchParametersHNSW(efSearch=max(settings.breadth, 2 * k), sel=selector)
        else:
            wanted = max(200, settings.refine * k)
            options = faiss.SearchParametersIVF(nprobe=settings.probes, sel=selector)
        accept_search_params()
        _, found = self._structure.search(queries, min(wanted, self._covered), params=options)
        rows_found: Ints = found.astype(np.int64)
        return rows_found

    def _best(self, queries: Floats, k: int, rows: Ints) -> Ints:
        """The exact best of a few rows, as row numbers (Q, at most k)."""
        if not len(rows):
            return np.empty((len(queries), 0), np.int64)
        return search_rows(self._file, queries, k, rows)[0]

    def _refined(self, queries: Floats, k: int, candidates: Ints, rows: Ints | None) -> Neighbors:
        """The best k of each query's candidates by their exact similarity."""
        matrix = self._file.matrix()
        ids = np.empty((len(queries), k), np.int64)
        similarities = np.empty((len(queries), k), np.float32)
        short = []
        for number, line in enumerate(candidates):
            own = np.unique(line[line >= 0])
            if len(own) < k:
                short.append(number)
                continue
            values = (matrix[torch.from_numpy(own)] @ torch.from_numpy(queries[number])).numpy().clip(-1, 1)
            self._file.check_numbers(values)
            order = np.argsort(-values, kind="stable")[:k]
            ids[number], similarities[number] = self._file.row_ids[own[order]], values[order]
        if short:
            exact = search_file(self._file, queries[short], k, rows)
            ids[short], similarities[short] = exact.ids, exact.similarities
        return Neighbors(ids, similarities)
