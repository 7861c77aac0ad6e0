"""Jobs and pages of the study of vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from benchmarks import DOCS
from benchmarks.common.pages import renewed
from benchmarks.common.plan import Job, Place, Stored
from benchmarks.vectors import RESULTS
from benchmarks.vectors.sets import SEEDS

SIDE_BY_SIDE = 1
WRITTEN_BY = "written by python -m benchmarks vectors page"
PAIRED = (("debian", "minilm"), ("wordnet", "minilm"), ("debian", "wordllama"), ("wordnet", "wordllama"))
FEW = (("debian", "minilm"), ("wordnet", "minilm"))
FEW_PAIRS = 10_000
UNLABELLED = (
    *product(("debian", "wordnet"), ("minilm", "wordllama")),
    *product(("cisi", "dbpedia"), ("minilm", "wordllama")),
)


def jobs(place: Place) -> Iterator[Job]:
    """Settings first, then codes from pairs, without labels, in few bytes, between models and spaces, and the cost."""
    from benchmarks.vectors import cost, emoji, paired, spaces, storage, translated, unlabelled, upgrade, variants

    stored = Stored(RESULTS, place.results)
    current = paired.of_settings(variants.best(stored.rows("variants")))

    def job(
        name: str, module: str, words: Sequence[str], rows: Sequence[str], seconds: float, needs: Sequence[str] = ()
    ) -> Job:
        """Return a job that writes one file of rows, done when it has all of them; `seconds` are per row."""
        there = {row["method"] for row in stored.rows(name) if module != "paired" or current(row)}
        left = [row for row in rows if row not in there]
        where = ("--data", "{data}") if needs else ()
        words = (*where, "--json", f"{{results}}/{name}.json", *words)
        return Job(name, f"vectors.{module}", words, seconds * len(left), module, tuple(needs), done=not left)

    yield job("variants", "variants", (), list(variants.VARIANTS), 300, variants.SETS)
    neural = ("--neural", str(stored.paths["variants"])) if stored.has("variants") else ()
    for (name, model), seed in product(PAIRED, SEEDS):
        words = ("--set", name, "--model", model, "--seed", str(seed), *neural)
        yield job(f"paired-{name}-{model}-s{seed}", "paired", words, paired.ALL_PAIRS, 60, [name])
    for (name, model), seed in product(FEW, SEEDS):
        words = ("--set", name, "--model", model, "--seed", str(seed), "--pairs", str(FEW_PAIRS))
        words = (*words, "--methods", ",".join(paired.FEW_PAIRS), *neural)
        yield job(f"few-{name}-{model}-s{seed}", "paired", words, paired.FEW_PAIRS, 40, [name])
    for seed in SEEDS:
        yield job(f"upgrade-s{seed}", "upgrade", ("--seed", str(seed)), upgrade.METHODS, 60, ["debian"])
    for (name, model), seed in product(UNLABELLED, SEEDS):
        words = ("--set", name, "--model", model, "--seed", str(seed))
        yield job(f"unlabelled-{name}-{model}-s{seed}", "unlabelled", words, unlabelled.METHODS, 20, [name])
    for seed in SEEDS:
        yield job(f"storage-s{seed}", "storage", ("--seed", str(seed)), storage.rows(), 30, ["debian"])
        for name, test in translated.SETS.items():
            words = ("--set", name, "--seed", str(seed), "--test", str(test))
            yield job(f"translated-{name}-s{seed}", "translated", words, translated.METHODS, 60, [name])
        yield job(f"emoji-s{seed}", "emoji", ("--seed", str(seed)), emoji.METHODS, 60, ["emoji"])
        yield job(f"spaces-s{seed}", "spaces", ("--seed", str(seed)), spaces.METHODS, 60)
    yield job("cost", "cost", ("--work", "{data}"), cost.METHODS, 200, ["debian"])
    yield job("cost-disk", "cost", ("--work", "{data}", "--methods", "disk"), ["disk"], 1500, ["debian"])


def pages() -> Iterator[tuple[Path, str]]:
    """docs/vector-benchmarks.md, and what docs/results.md says of vectors."""
    from benchmarks.vectors import tables
    from benchmarks.vectors.found import Found

    yield DOCS / "vector-benchmarks.md", tables.page(RESULTS)
    path = DOCS / "results.md"
    yield path, renewed(path.read_text(encoding="utf-8"), f"vectors: {WRITTEN_BY}", tables.in_short(Found(RESULTS)))
