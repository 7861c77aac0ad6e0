"""MTEB itself on a local task: every code length by `mteb.evaluate`, beside our own scores of the same codes.

    python -m benchmarks.vectors.local_task --texts FOLDER --wordllama FOLDER --json OUT.json --set cisi

The task is a folder of judged texts in BEIR's layout, so nothing is downloaded. `eigenmap.evaluation.mteb` encodes its
texts with WordLlama and cuts the codes; "prefix" is the vectors themselves, "neighbours" a map fitted to the documents
without labels. The difference is that of nDCG@10 from `eigenmap.evaluation.vectors`, which reads the same judgements.
"""

from __future__ import annotations

import argparse
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.vectors import corpora
from benchmarks.vectors.models import WordLlama, embed
from benchmarks.vectors.rows import measured
from eigenmap import Eigenmap, fit_vectors
from eigenmap.data.vectors.qrels import load_qrels
from eigenmap.evaluation.mteb import score_lengths
from eigenmap.evaluation.vectors import judged_search

METHODS = ("prefix", "neighbours")
LENGTHS = (16, 32, 64, 128, 256)


def local_task(name: str, texts: corpora.Judged) -> Any:
    """Return a retrieval task of MTEB whose texts and judgements are in memory."""
    from datasets import Dataset
    from mteb import TaskMetadata
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    relevant: dict[str, dict[str, int]] = {}
    for line in texts.qrels.read_text(encoding="utf-8").splitlines():
        query, document, grade = line.split("\t")
        if grade.lstrip("-").isdigit():  # the first line names the columns
            relevant.setdefault(query, {})[document] = int(grade)

    class Local(AbsTaskRetrieval):  # type: ignore[misc]
        metadata = TaskMetadata(
            name=name,
            description="Judged texts of a local folder.",
            dataset={"path": "local/folder", "revision": "1"},
            type="Retrieval",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
            documents = {"id": texts.document_ids, "text": texts.documents}
            queries = {"id": texts.query_ids, "text": texts.queries}
            split = {
                "corpus": Dataset.from_dict(documents),
                "queries": Dataset.from_dict(queries),
                "relevant_docs": relevant,
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    return Local()


def scores(name: str, texts: corpora.Judged, base: WordLlama, method: str) -> dict[str, Any]:
    """Return nDCG@10 at every length by MTEB, and the largest difference from ours."""
    queries, documents = (embed(base, some) for some in (texts.queries, texts.documents))
    model: Eigenmap | None = None
    if method == "neighbours":
        model = fit_vectors(documents, neighbours=10, progress=False, seed=0)
    found = score_lengths(lambda some: embed(base, some), model, [local_task(name, texts)], LENGTHS)
    by_mteb = {row["dim"]: row["main_score"] for row in found}
    qrels = load_qrels(texts.qrels, texts.query_ids, texts.document_ids)
    codes = [rows if model is None else model.encode(rows) for rows in (queries, documents)]
    units = [np.ascontiguousarray(rows, dtype=np.float32) for rows in codes]
    ours = {int(row["dim"]): row["ndcg@10"] for row in judged_search(*units, qrels, LENGTHS, top=(10,), device="cpu")}
    return {
        "scores": {str(length): {"ndcg@10": by_mteb[length]} for length in LENGTHS},
        "difference": max(abs(by_mteb[length] - ours[length]) for length in LENGTHS),
    }


def main(words: list[str] | None = None) -> None:
    given = parser().parse_args(words)
    texts, base = corpora.judged(given.texts), WordLlama(given.wordllama)
    protocol = {"set": given.set, "documents": len(texts.documents), "queries": len(texts.queries)}
    measured(
        given.json,
        protocol,
        {"set": given.set, "seed": 0},
        METHODS,
        lambda method: scores(given.set, texts, base, method),
        mteb=version("mteb"),
    )


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--texts", type=Path, required=True, help="folder with corpus, queries and qrels")
    made.add_argument("--wordllama", type=Path, required=True, help="the folder of the package wordllama")
    made.add_argument("--json", type=Path, required=True, help="result to write or continue")
    made.add_argument("--set", required=True, help="name of the set")
    return made


if __name__ == "__main__":
    main()
