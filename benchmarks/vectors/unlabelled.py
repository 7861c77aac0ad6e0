"""Codes without labels, from documents by one or two models, compared with PCA.

    python -m benchmarks.vectors.unlabelled --data DATA --json OUT.json --set cisi --model minilm --seed 0

Everything is fitted to documents. Queries then search for the documents judged relevant (cisi, dbpedia), or for their
own partner (in sets of pairs, with documents of the training part, and queries and documents of the test).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vectors import rivals, sets
from benchmarks.vectors.ours import encoder, facts
from benchmarks.vectors.rows import measured
from benchmarks.vectors.scores import Encoder, Scores, by_length
from benchmarks.vectors.sets import Floats, Pairs
from eigenmap import fit_vectors
from eigenmap.data.vectors.qrels import load_ids, load_qrels
from eigenmap.evaluation.vectors import judged_search

METHODS = ("prefix", "pca", "pca-whitened", "neighbours", "second")
SECOND = {"minilm": "wordllama", "wordllama": "minilm"}
NEIGHBOURS = 10
DOCUMENTS = 16_000
"""Documents to fit to, at most."""


def encoder_of(name: str, documents: Floats, other: Callable[[], Floats], seed: int) -> tuple[Encoder, dict[str, Any]]:
    """Fit a method to documents; `other` returns the vectors of the same documents by a second model."""
    both = Pairs(documents, documents)
    if name in ("prefix", "pca", "pca-whitened"):
        fit = {"prefix": rivals.prefix, "pca": rivals.pca, "pca-whitened": rivals.pca_whitened}[name]
        return fit(both, seed), {}
    relation: dict[str, Any] = {"second": other()} if name == "second" else {"neighbours": NEIGHBOURS}
    model = fit_vectors(documents, seed=seed, progress=False, **relation)
    return encoder(model), facts(model)


def by_judgement(encode: Encoder, folder: Path, queries: Floats, documents: Floats, lengths: Sequence[int]) -> Any:
    """Scores by human judgements at every length."""
    ids = [
        load_ids(folder / f"{side}-ids.txt", count)
        for side, count in (("query", len(queries)), ("document", len(documents)))
    ]
    qrels = load_qrels(folder / "qrels.tsv", *ids)
    found: dict[str, Scores] = {}
    for length in lengths:
        codes = [np.ascontiguousarray(encode(rows, "left", length)) for rows in (queries, documents)]
        (row,) = judged_search(*codes, qrels, [codes[0].shape[1]], top=(10,), device="cpu")
        found[str(length)] = {name: row[name] for name in ("ndcg@10", "recall@10", "mrr")}
    return found


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    folder, second = given.data / given.set, SECOND[given.model]
    judged = (folder / "qrels.tsv").is_file()
    protocol = {"set": given.set, "model": given.model, "judged": judged, "neighbours": NEIGHBOURS}
    if judged:
        queries, documents = (sets.load(given.data, given.set, side, given.model) for side in ("queries", "documents"))
        protocol |= {"documents": len(documents), "queries": len(queries)}
    else:
        both = sets.load_pairs(given.data, given.set, given.model)
        parts = sets.split(both, given.seed, DOCUMENTS, given.test)
        documents, queries = parts.fit.right, parts.test.left
        protocol |= {"documents": len(documents), "queries": len(queries), "gallery": parts.test.count}
    lengths = sets.lengths_of(documents.shape[1])

    def other() -> Floats:
        if judged:
            return sets.load(given.data, given.set, "documents", second)
        seen = sets.load(given.data, given.set, "right", second)
        return sets.split(Pairs(seen, seen), given.seed, DOCUMENTS, given.test).fit.right

    def measure(name: str) -> dict[str, Any]:
        encode, about = encoder_of(name, documents, other, given.seed)
        if judged:
            return {"scores": by_judgement(encode, folder, queries, documents, lengths), **about}
        return {"scores": by_length(encode, parts.test, lengths), **about}

    job = {"set": given.set, "model": given.model, "seed": given.seed}
    methods = given.methods.split(",") if given.methods else METHODS
    measured(given.json, protocol, job, methods, measure, sets.texts(given.data, given.set))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--data", type=Path, required=True, help="folder of prepared sets")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", required=True)
    made.add_argument("--model", required=True, choices=SECOND)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--test", type=int, default=sets.TEST, help="number of test pairs, if there are no judgements")
    made.add_argument("--methods", help="names, separated by commas (default: all)")
    return made


if __name__ == "__main__":
    main()
