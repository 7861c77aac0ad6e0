"""Rules for the repository as a whole: who imports whom, what an import costs, what no file may name."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "eigenmap"

# A module imports only from those before it.
# fmt: off
ORDER = [
    "core", "spectrum", "objectives", "networks", "data", "loading", "augment", "relations", "linear", "formats",
    "description", "saved", "hub", "model", "embedding", "training", "evaluation", "search", "export", "figures",
    "recipes", "fitting", "kernels", "demo", "detection", "reproduce", "estimators", "service", "cli",
    "__main__",
]
# fmt: on

# Slow or optional: imported inside the functions that need them.
LAZY = [
    "lightning_fabric",
    "lightning",
    "faiss",
    "matplotlib",
    "sklearn",
    "scipy",
    "torchvision",
    "timm",
    "pyarrow",
    "psycopg",
    "ray",
    "onnx",
    "huggingface_hub",
    "fastapi",
    "uvicorn",
    "pydantic",
]

# Written so that this file does not contain what it forbids.
FORBIDDEN = {
    "a path of one machine": rb"(?<![\w.])/(?:[w]ork|[r]oot|[U]sers|home/[a-z]+|opt/(?:[p]ypi|[w]heels))/",
    "the folder of working papers": rb"(?<![\w-])[s]hared/",
    "a package registry": rb"(?:[p]ypi|[t]est\.pypi)\.org|[p]ythonhosted\.org|[d]ownload\.pytorch\.org|[a]naconda\.org"
    rb"|[r]egistry\.npmjs\.org|[g]hcr\.io|[q]uay\.io|[d]ocker\.io|[a]rtifactory",
}


# Import order


def imported(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module of the package that a file imports, at the top or inside a function.

    `from a import b` counts as a.b: b may be a module, and if it is not, its first two names still say where it is.
    """
    package = list(path.relative_to(source).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names]
        yield from ((node.lineno, name) for name in names if name.split(".")[0] == PACKAGE)


def violations(source: Path) -> list[str]:
    """Every import against the order, and every module that has no place in it."""
    found = []
    for path in sorted((source / PACKAGE).rglob("*.py")):
        place = path.relative_to(source / PACKAGE)
        room = place.with_suffix("").parts[0]
        if room == "__init__":  # the public names: it may import anything
            continue
        if room not in ORDER:
            found.append(f"{place}: {room} has no place in the order")
            continue
        for line, name in imported(path, source):
            target = name.partition(".")[2].split(".")[0]
            # The version is a string and depends on nothing; all other names of the package itself come too late.
            allowed = ["__version__", *ORDER[: ORDER.index(room) + 1]]
            if target not in allowed:
                found.append(f"{place}:{line}: {room} imports {name}")
    return found


def test_imports_follow_the_order() -> None:
    assert violations(ROOT / "src") == []


def test_every_module_is_looked_at() -> None:
    seen = [name for path in (ROOT / "src" / PACKAGE).rglob("*.py") for _, name in imported(path, ROOT / "src")]
    assert f"{PACKAGE}.core.errors.EigenmapError" in seen
    assert len(seen) > 20


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("data/x.py", "from eigenmap.training import loop"),
        ("data/x.py", "from eigenmap.training.loop import train"),
        ("data/x.py", "import eigenmap.training.loop as loop"),
        ("data/x.py", "from eigenmap import core, training"),
        ("data/x.py", "from ..training import loop"),
        ("data/x.py", "from .. import training"),
        ("data/deep/x.py", "from ...training.loop import train"),
        ("data/__init__.py", "from ..training import loop"),
        ("data/x.py", "def f():\n    from eigenmap.training import loop"),
        ("data/x.py", "if TYPE_CHECKING:\n    from eigenmap.training import loop"),
        ("data/x.py", "import eigenmap"),
        ("data/x.py", "from eigenmap import fit_images"),
        ("cli/x.py", "from eigenmap import fit_images"),
        ("spectrum.py", "from eigenmap.objectives import build"),
        ("spectrum.py", "from . import model"),
        ("core/errors.py", "from ..spectrum import align"),
        ("novelty.py", "import torch"),
        ("novelty/__init__.py", ""),
    ],
)
def test_a_wrong_import_is_caught(tmp_path: Path, file: str, code: str) -> None:
    path = tmp_path / PACKAGE / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("data/x.py", "from eigenmap.core.errors import EigenmapError\nfrom eigenmap.data.y import z\nfrom . import y"),
        ("data/deep/x.py", "from .. import y\nfrom ..y import z\nfrom ...core.errors import EigenmapError"),
        ("cli/x.py", "import torch, numpy.training\nfrom eigenmap import fitting\nfrom ..service import app"),
        ("demo/x.py", "def f():\n    from eigenmap import __version__"),
        ("core/errors.py", "from eigenmapping.training import x"),
        ("__init__.py", "from eigenmap.cli import main"),
    ],
)
def test_a_right_import_is_not(tmp_path: Path, file: str, code: str) -> None:
    path = tmp_path / PACKAGE / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert violations(tmp_path) == []


# What an import costs


def test_importing_loads_nothing_heavy() -> None:
    seen = f"json.dumps([name for name in {LAZY!r} if name in sys.modules])"
    code = f"import json, sys, {PACKAGE}, {PACKAGE}.data.images, {PACKAGE}.data.graphs; print({seen})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "src")
    assert json.loads(result.stdout) == []


# What no file may name


def files() -> list[Path]:
    """What is or may be committed; outside a checkout, what a source distribution holds."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, capture_output=True, text=True, check=False, cwd=ROOT)
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        rooms = (ROOT / room for room in ("src", "tests", "docs", "benchmarks"))
        paths = [*ROOT.glob("*"), *(path for room in rooms for path in room.rglob("*") if path.suffix != ".pyc")]
    return [path for path in paths if path.is_file()]


def named(content: bytes) -> list[str]:
    """What of the forbidden a content names."""
    return [what for what, pattern in FORBIDDEN.items() if re.search(pattern, content)]


def test_no_file_names_what_is_private_to_one_machine() -> None:
    paths = files()
    assert Path(__file__).resolve() in [path.resolve() for path in paths]
    assert {str(path.relative_to(ROOT)): found for path in paths if (found := named(path.read_bytes()))} == {}


@pytest.mark.parametrize(
    "content",
    [
        "see /wo" + "rk/main/README.md",
        "open('/ro" + "ot/x')",
        "as in sha" + "red/design",
        "--index-url https://py" + "pi.org/simple",
        "FROM ghc" + "r.io/a/b",
        "find-links = /opt/whe" + "els/",
    ],
)
def test_a_forbidden_name_is_caught(content: str) -> None:
    assert len(named(content.encode())) >= 1


@pytest.mark.parametrize("content", ["frame/work/x", "what is shared / what is not", "unshared/x", "pip install ."])
def test_a_harmless_name_is_not(content: str) -> None:
    assert named(content.encode()) == []
