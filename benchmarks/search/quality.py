"""Retrieval quality of stored codes at a given number of bytes per item; queries are not compressed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common.codes import Codes, Floats
from eigenmap.evaluation.retrieval import retrieval
from eigenmap.search import CodeIndex
from eigenmap.search.codecs import reliable

BYTES = (4, 8, 16, 32, 64)
Pair = tuple[Floats, Floats]
"""(queries, gallery) as they are compared."""


def mean_average_precision(codes: Codes, queries: Floats, gallery: Floats) -> dict[str, float]:
    """Quality of the ranking by cosine."""
    dim = gallery.shape[1]
    (row,) = retrieval(queries, gallery, codes.query_labels, codes.gallery_labels, dims=[dim], top=(100, 1000))
    return {name: value for name, value in row.items() if name != "dim"}


def full_quality(codes: Codes) -> dict[str, float]:
    return mean_average_precision(codes, codes.queries, codes.gallery)


def by_product(queries: Floats, gallery: Floats) -> Pair:
    """Add a feature that gives all items the same norm, so that cosines rank like inner products."""
    squares = np.square(gallery).sum(axis=1)
    rest = np.sqrt(squares.max() - squares)[:, None].astype(np.float32)
    return np.hstack([queries, np.zeros_like(queries[:, :1])]), np.hstack([gallery, rest])


def _stored(gallery: Floats, **options: Any) -> Floats:
    """Return the codes as one of our indexes stores them."""
    index = CodeIndex(gallery.shape[1], **options)
    index.add(gallery, range(len(gallery)))
    return np.concatenate([batch.codes for batch in index.batches()])


def bit_budget(codes: Codes, n_bytes: int) -> Pair:
    return by_product(codes.queries, _stored(codes.gallery, precision="bits", bytes_per_item=n_bytes))


def bit_budget_unscaled(codes: Codes, n_bytes: int) -> Pair:
    """Return compact codes of norm 1, without the scale of `eigenmap.search.codecs.reliable`."""
    options = {"metric": "inner", "precision": "bits", "bytes_per_item": n_bytes}
    return by_product(codes.queries, _stored(codes.gallery, **options))


def int8_prefix(codes: Codes, n_bytes: int) -> Pair:
    return codes.queries[:, :n_bytes], _stored(codes.gallery[:, :n_bytes], precision="int8")


def sign_bits(codes: Codes, n_bytes: int) -> Pair:
    kept = 8 * n_bytes
    stored = _stored(codes.gallery, precision="signs", bytes_per_item=n_bytes)
    return codes.queries[:, :kept], stored[:, :kept]


def _quantised(rows: Floats, n_bytes: int) -> Floats:
    import faiss

    quantiser = faiss.ProductQuantizer(rows.shape[1], n_bytes, 8)
    quantiser.train(np.ascontiguousarray(rows[np.random.default_rng(0).permutation(len(rows))[:50_000]]))
    decoded: Floats = quantiser.decode(quantiser.compute_codes(np.ascontiguousarray(rows)))
    return decoded


def product_quantisation(codes: Codes, n_bytes: int) -> Pair:
    return by_product(codes.queries, _quantised(codes.gallery, n_bytes))


def scaled_product_quantisation(codes: Codes, n_bytes: int) -> Pair:
    """PQ of the vectors described by our bit budget, to separate the effects of scale and split."""
    rms = np.sqrt(np.square(codes.gallery, dtype=np.float64).mean(axis=0)).astype(np.float32)
    return by_product(codes.queries, _quantised(reliable(codes.gallery, rms), n_bytes))


def pca_and_product_quantisation(codes: Codes, n_bytes: int) -> Pair:
    """PQ of principal components: as many as PQ can split evenly, at most four per byte."""
    k = codes.gallery.shape[1]
    dim = min(4 * n_bytes, k // n_bytes * n_bytes)
    mean = codes.gallery.mean(axis=0)
    axes = np.linalg.eigh(np.cov(codes.gallery.T.astype(np.float64)))[1][:, ::-1][:, :dim].astype(np.float32)
    return by_product((codes.queries - mean) @ axes, _quantised((codes.gallery - mean) @ axes, n_bytes))


def optimised_product_quantisation(codes: Codes, n_bytes: int) -> Pair:
    """A rotation learned for PQ [T. Ge et al., 2013], the strongest of its kind in faiss's factory."""
    import faiss

    gallery = codes.gallery
    sample = np.ascontiguousarray(gallery[np.random.default_rng(0).permutation(len(gallery))[:20_000]])
    rotation = faiss.OPQMatrix(gallery.shape[1], n_bytes)
    rotation.niter = 10
    rotation.train(sample)
    return by_product(rotation.apply(codes.queries), _quantised(rotation.apply(gallery), n_bytes))


METHODS: dict[str, Callable[[Codes, int], Pair]] = {
    "bit budget": bit_budget,
    "bit budget, not scaled": bit_budget_unscaled,
    "int8 prefix": int8_prefix,
    "PQ of the full vector": product_quantisation,
    "PQ, scaled as ours": scaled_product_quantisation,
    "PCA + PQ": pca_and_product_quantisation,
    "OPQ of the full vector": optimised_product_quantisation,
    "sign bits": sign_bits,
}
