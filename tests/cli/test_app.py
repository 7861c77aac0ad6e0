from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import eigenmap
from eigenmap.augment.views import POLICIES as VIEWS
from eigenmap.networks import ENCODERS
from tests.cli.run import refused, run, succeed

VERBS = {
    "fit": ["images"],
    "fit images": [
        *("SOURCE", "--out", "--components", "--recipe", "--encoder", "--encoder-weights", "--freeze", "--image-size"),
        *("--objective", "--views", "--epochs", "--steps", "--minutes", "--batch-size", "--lr", "--optimizer"),
        *("--seed", "--device", "--devices", "--nodes", "--strict", "--force", "--resume", "--quiet", "--tensorboard"),
        "--set",
    ],
    "embed": ["RUN", "SOURCE", "--out", "--dim", "--batch-size", "--force", "--strict", "--device"],
    "index": ["RUN", "SOURCE", "--out", "--dim", "--force", "--precision", "--bytes-per-item", "--backend", "--add"],
    "search": ["INDEX", "IMAGE", "--dim", "--top", "--json", "--shortlist", "--shortlist-dim", "--funnel", "--where"],
    "advise": ["INDEX", "--recall", "--bytes-per-item", "--items", "--json", "--plot"],
    "duplicates": ["INDEX", "--threshold", "--dim", "--json"],
    "evaluate": ["retrieval", "classes", "nodes"],
    "evaluate retrieval": [
        *("RUN", "--gallery", "--query", "--gallery-labels", "--query-labels", "--dims", "--top", "--json"),
        *("--of", "--random-features"),
    ],
    "evaluate classes": [
        *("RUN", "--train", "--test", "--train-labels", "--test-labels", "--labels", "--dims", "--probe", "--of"),
        *("--neighbours", "--json", "--force"),
    ],
    "info": ["RUN"],
    "report": ["RUN", "--data", "--queries", "--labels", "--scores", "--optimise", "--out", "--force"],
    "figures": [
        "RUN",
        "--only",
        "--data",
        "--queries",
        "--scores",
        "--metric",
        "--steps",
        "--out",
        "--json",
        "--force",
    ],
    "recipes": ["--help"],
    "objectives": ["--help"],
    "demo": ["--out", "--force"],
    "reproduce": ["figure-rbf", "table-1", "table-6", "figure-retrieval", "--list"],
    "reproduce table-6": ["--scale", "--data", "--runs", "--seed", "--device", "--json", "--force"],
    "reproduce table-1": ["--scale", "--data", "--seed", "--device", "--json", "--force"],
    "reproduce figure-retrieval": ["--out", "--scale", "--data", "--top", "--seed", "--device", "--json", "--force"],
    "reproduce figure-rbf": [
        *("--out", "--length-scale", "--components", "--points", "--paper-components", "--paper-steps"),
        *("--seed", "--force", "--json"),
    ],
}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help texts that are not wrapped can be searched."""
    monkeypatch.setenv("COLUMNS", "200")


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", re.sub(r"\x1b\[[\d;]*m", "", text)))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_verb_explains_itself(verb: str, flag: str) -> None:
    help_text = succeed(*verb.split(), flag).out
    assert words(help_text) >= set(VERBS[verb])


@pytest.mark.parametrize("verb", [verb for verb, options in VERBS.items() if "--out" in options or "RUN" in options])
def test_help_of_verbs_that_work_has_an_example(verb: str) -> None:
    text = succeed(*verb.split(), "--help").out
    assert re.search(rf"Examples?:\s+eigenmap {verb} ", text), text


_IN_ORDER = ("demo", "fit", "embed", "index", "search", "evaluate", "info", "report", "figures")


def test_the_first_page_names_every_verb_in_the_order_of_use() -> None:
    text = succeed("--help").out
    places = [text.index(f"│ {verb} ") for verb in _IN_ORDER]
    assert places == sorted(places)
    bare = run()
    assert (bare.out + bare.err).split() == text.split()


def test_paragraphs_of_the_help_wrap_at_the_width_of_the_terminal_and_tables_do_not() -> None:
    """As written in the source, their lines are shorter than the 200 columns here."""
    assert "at any length. Known labels can be used as conditions" in succeed("index", "--help").out
    lines = succeed("evaluate", "nodes", "--help").out.splitlines()
    assert [line.split()[0] for line in lines if re.match(r" \w+ {2,}\w", line)][:2] == ["accuracy", "spread"]


def test_help_names_what_there_is_to_choose_from() -> None:
    assert words(succeed("fit", "images", "--help").out) >= {*ENCODERS, *VIEWS, "adamw", "sgd", "lars"}


def test_version() -> None:
    assert succeed("--version").out == f"eigenmap {eigenmap.__version__}\n"


def test_a_verb_that_does_not_exist() -> None:
    assert re.search("'embde'.*'embed'", refused("embde"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nonsense"], "--nonsense.*--help"),
        (
            ["search", "index", "a.jpg", "--rank-by", "x"],
            "'--rank-by'.*'x'.*'relevance'",
        ),
        (["search", "index"], "'IMAGE'.*--help"),
        (["fit", "images", "a", "b", "--out", "x"], "Got unexpected extra argument"),
        (["fit", "images", "a", "--steps", "many"], "--steps must be.*(whole number|integer)"),
        (["duplicates", "a", "--dim", "auto"], "^--dim must be.*(whole number|integer)"),
        (["embed", "run", "photos"], "'--out' / '-o'.*--help"),
        (["fit", "imagse", "a"], "'imagse'.*'images'"),
    ],
)
def test_a_command_that_cannot_be_read_ends_in_one_sentence(words: list[str], sentence: str) -> None:
    assert re.search(sentence, refused(*words))


@pytest.mark.parametrize("words", [[], ["fit"], ["embed"]])
def test_a_verb_alone_shows_its_help(words: list[str]) -> None:
    result = run(*words)
    assert "Usage:" in result.out + result.err and "Error" not in result.err


def test_a_forgotten_word_is_named(tmp_path: Path) -> None:
    sentence = f"images, graph, vectors or towers.*eigenmap fit images {tmp_path}"
    assert re.search(sentence, refused("fit", tmp_path, "--out", "x"))
    assert "eigenmap evaluate retrieval" in refused("evaluate", tmp_path)
    result = run("fit", "imagse")
    assert result.code == 2 and "'images'" in result.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "images", "", "--out", "run"], "word 3 .*empty"),
        (["fit", "images", ".", "--out", "", "--force"], "word 5 .*empty"),
        (["index", "run", "", "--out", "x"], "word 3 .*empty"),
        (["fit", "images", ".", "--out=", "--force"], "--out= .*value"),
    ],
)
def test_empty_words_do_not_mean_this_folder(
    words: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert re.search(sentence, refused(*words))
    assert list(tmp_path.iterdir()) == []


def test_interrupting_training_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eigenmap.fitting.images.fit_images", interrupted)
    result = run("fit", "images", tmp_path, "--out", tmp_path / "run")
    assert result.code == 130
    assert re.fullmatch(r"Error: stopped.*--resume.*checkpoint, if there is one.\n", result.err)
    monkeypatch.setattr("eigenmap.model.Eigenmap.load", interrupted)
    result = run("info", tmp_path)
    assert (result.code, result.err) == (130, "Error: stopped.\n")


def test_a_mistake_of_ours_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("eigenmap.model.Eigenmap.load", broken)
    with pytest.raises(ZeroDivisionError):
        run("info", tmp_path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_what_is_wrong_with_a_disk_is_one_sentence(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: object) -> None:
        raise OSError(number, os.strerror(number), "some/file")

    monkeypatch.setattr("eigenmap.model.Eigenmap.load", failing)
    assert re.search(f"some/file.*{os.strerror(number)}", refused("info", tmp_path))


def test_the_modules_of_the_command_line_import_nothing_heavy() -> None:
    """Whatever `import eigenmap` brings along, the command line adds nothing that computes."""
    program = """
import sys
import eigenmap
before = set(sys.modules)
import eigenmap.cli
added = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(added & {"faiss", "lightning_fabric", "matplotlib", "PIL", "pyarrow", "scipy", "sklearn", "torch"}))
print(*sorted(name for name in set(sys.modules) - before if name.startswith("eigenmap.") and ".cli" not in name))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    # How addresses are read, and files and folders are written: nothing that computes.
    names = ("addresses", "clock", "files", "folders", "logging", "processes", "renames", "words")
    assert ended.stdout == "\n" + " ".join(f"eigenmap.core.{name}" for name in names) + "\n"


def test_a_name_that_is_too_long_and_too_little_memory_are_one_sentence(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "too long" in refused("fit", "images", photos, "--out", tmp_path / ("x" * 300))

    def no_memory(*given: object, **more: object) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes")

    monkeypatch.setattr("eigenmap.fitting.images.fit_images", no_memory)
    assert "memory" in refused("fit", "images", photos, "--out", tmp_path / "run")
