from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import typer

from eigenmap import CodeIndex, EigenmapError, fit_images
from eigenmap.cli import app
from eigenmap.cli.wording import in_command_words, options_of
from tests.cli.run import refused, succeed
from tests.end_to_end.photos import pictures


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_each_door_has_its_own_words(tmp_path: Path, photos: Path, model_dir: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    with pytest.raises(EigenmapError, match=r"force=True or resume=True\.$"):
        fit_images(pictures(20), 4, out=tmp_path / "run")
    assert refused("fit", "images", photos, "--out", tmp_path / "run").endswith("or use --force or --resume.")
    said = refused("index", model_dir, photos, "--out", tmp_path / "x", "--precision", "bits")
    assert said.startswith("--bytes-per-item and precision")


def test_words_and_paths_stay_as_they_are() -> None:
    options = options_of(typer.main.get_command(app).commands["fit"])  # type: ignore[attr-defined]
    assert options["encoder_weights"] == "--encoder-weights" and options["n_components"] == "--components"
    for same in ("the force is with you", "/a/batch_size/b and batch_size.npy", "it is 'n_components'", "label=cat"):
        assert in_command_words(same, options) == same
    flag = "give standardisation=IMAGENET_STANDARDISATION, which reads"
    assert in_command_words(flag, options) == "give --imagenet, which reads" and in_command_words(flag, {}) == flag
    assert in_command_words("give it as out=. Try lr=0.01.", options) == "give it as --out. Try --lr 0.01."


def test_python_and_the_command_line_have_other_ways_to_make_an_index(tmp_path: Path) -> None:
    with pytest.raises(EigenmapError, match=r"no such directory.*CodeIndex\(where=PATH\)"):
        CodeIndex.open(tmp_path / "none")
    assert re.search("no such directory.*`eigenmap index`", refused("search", tmp_path / "none", tmp_path))
    (tmp_path / "model.json").write_text("{}")
    assert re.search("it is a model.*`eigenmap index`", refused("search", tmp_path, tmp_path))


def test_an_option_that_takes_several_values_stands_for_each() -> None:
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    message = "dim must be a whole number from 1 to 8, not 99."
    for verb, option in (("search", "--dim"), ("embed", "--dim"), ("evaluate", "--dims")):
        assert in_command_words(message, options_of(verbs[verb])) == message.replace("dim", option, 1)


def test_flags_do_not_look_as_if_they_took_values() -> None:
    for verb in (
        (),
        ("fit",),
        ("fit", "images"),
        ("fit", "vectors"),
        ("index",),
        ("serve",),
        ("evaluate", "retrieval"),
    ):
        assert "<bool>" not in succeed(*verb, "--help").out
    assert re.search(r"--device +<auto\|cpu\|cuda>", succeed("embed", "--help").out)


def test_no_error_of_the_library_names_an_option() -> None:
    """They are raised for callers in Python too; `in_command_words` translates them for the command line.

    Whole commands in backquotes, and those of other programs, are recommended through every door.
    """
    import eigenmap

    root = Path(eigenmap.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] == "cli":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                text = "".join(each.value for each in ast.walk(node.exc) if _is_text(each))  # type: ignore[attr-defined]
                named = re.search(r"--[a-z]", re.sub("`[^`]*`", "", text))
                assert not named, f"{path.relative_to(root)}, line {node.lineno}: {text}"
    options = {"force": "--force", "replace": "--force", "model": "--model"}
    assert in_command_words("choose another table, or use replace=True", options).endswith("or use --force")
    assert in_command_words("give the folder of its run as model=", options).endswith("as --model")
