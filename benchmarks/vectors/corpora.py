"""Pairs of texts, and texts with human relevance judgements, from files of other packages.

debian: short -> long description of a package, from the lists that apt downloads.
french: English -> French short description of a package, from the same lists.
wordnet: words of a synset -> its definition, from WordNet's folder of data files.
cisi, dbpedia and others: a folder with corpus.jsonl.gz, queries.jsonl.gz and qrels.tsv (BEIR's layout).
"""

from __future__ import annotations

import gzip
import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.errors import BenchmarkError

SEED = 0
"""Seed of the order of the pairs; the first n are a random sample."""


class Pairs(NamedTuple):
    """Pairs of texts: text k of one side belongs to text k of the other."""

    left: list[str]
    right: list[str]


class Judged(NamedTuple):
    """Queries, documents, and the file of relevance judgements."""

    query_ids: list[str]
    queries: list[str]
    document_ids: list[str]
    documents: list[str]
    qrels: Path


def debian(lists: Path) -> Pairs:
    """Short and long descriptions of the packages in apt's lists."""
    return shuffled(distinct(_descriptions(lists, "en").values()))


def translated(lists: Path, language: str = "fr") -> Pairs:
    """Short descriptions in English and in another language."""
    english, other = _descriptions(lists, "en"), _descriptions(lists, language)
    return shuffled(distinct((english[key][0], short) for key, (short, _) in other.items() if key in english))


def wordnet(folder: Path) -> Pairs:
    """Words of each synset, and its definition without the examples (which may contain the words)."""
    files = [folder / f"data.{part}" for part in ("noun", "verb", "adj", "adv")]
    if absent := [file.name for file in files if not file.is_file()]:
        raise BenchmarkError(f"{folder} lacks {', '.join(absent)}: give the folder dict of WordNet.")
    found = (synset(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())
    return shuffled(distinct(pair for pair in found if pair is not None))


def synset(line: str) -> tuple[str, str] | None:
    """Words and definition of a line of data.noun and the like; None for a line of the licence.

    >>> synset('00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which exists; "a being"  ')
    ('entity', 'that which exists')
    """
    if line.startswith("  "):
        return None
    about, _, gloss = line.partition(" | ")
    cells = about.split(" ")
    words = [re.sub(r"\(.*\)", "", word).replace("_", " ") for word in cells[4 : 4 + 2 * int(cells[3], 16) : 2]]
    return ", ".join(words), gloss.split('; "')[0].strip()


def judged(folder: Path) -> Judged:
    """A set in BEIR's layout; a document is its title and text."""
    names = [folder / name for name in ("queries.jsonl.gz", "corpus.jsonl.gz", "qrels.tsv")]
    if absent := [file.name for file in names if not file.is_file()]:
        raise BenchmarkError(f"{folder} lacks {', '.join(absent)}.")
    queries, documents = (list(_lines(file)) for file in names[:2])
    texts = [f"{each['title']}. {each['text']}" if each.get("title") else each["text"] for each in documents]
    return Judged(
        [each["_id"] for each in queries],
        [each["text"] for each in queries],
        [each["_id"] for each in documents],
        texts,
        names[2],
    )


def distinct(pairs: Iterable[tuple[str, str]]) -> Pairs:
    """Return pairs of which neither text has occurred before, so that each text has one partner."""
    kept: list[tuple[str, str]] = []
    seen: tuple[set[str], set[str]] = set(), set()
    for left, right in pairs:
        if left and right and left not in seen[0] and right not in seen[1]:
            kept.append((left, right))
            seen[0].add(left)
            seen[1].add(right)
    return Pairs([left for left, _ in kept], [right for _, right in kept])


def shuffled(pairs: Pairs) -> Pairs:
    """Return the pairs in a fixed random order."""
    order = list(range(len(pairs.left)))
    random.Random(SEED).shuffle(order)
    return Pairs([pairs.left[k] for k in order], [pairs.right[k] for k in order])


def _descriptions(lists: Path, language: str) -> dict[str, tuple[str, str]]:
    """First line and text of each description, by the checksum that all its translations share."""
    files = sorted(lists.glob(f"*Translation-{language}*"))
    if not files:
        raise BenchmarkError(f"{lists} contains no list of descriptions in the language {language!r}.")
    found: dict[str, tuple[str, str]] = {}
    for file in files:
        for stanza in _text(file).split("\n\n"):
            if entry := description(stanza, language):
                found.setdefault(entry[0], entry[1:])
    return found


def description(stanza: str, language: str) -> tuple[str, str, str] | None:
    r"""Checksum, first line and text of one entry.

    >>> description("Package: a\nDescription-md5: 0f\nDescription-en: A game\n Shoot.\n .\n Score.", "en")
    ('0f', 'A game', 'Shoot. Score.')
    """
    checksum = re.search(r"^Description-md5: (\w+)", stanza, re.M)
    found = re.search(rf"^Description-{language}: (.*)\n((?:[ \t].*\n?)*)", stanza, re.M)
    if checksum is None or found is None:
        return None
    lines = [line.strip() for line in found[2].splitlines()]
    return checksum[1], found[1].strip(), " ".join(line for line in lines if line not in ("", "."))


def _text(file: Path) -> str:
    """Return the contents of a list, which apt stores plain or compressed with lz4."""
    if file.suffix != ".lz4":
        return file.read_text(encoding="utf-8")
    if shutil.which("lz4") is None:
        raise BenchmarkError(f"{file.name} is compressed: install the command lz4.")
    return subprocess.run(["lz4", "-dc", str(file)], check=True, capture_output=True).stdout.decode("utf-8")


def _lines(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)
