"""Release build: reproducible wheel and sdist, tried in clean environments without the repository.

    python tools/release.py                  # or `make release`
    python tools/release.py --extras onnx    # only some of the extras
    python tools/release.py --pythons python3.12 python3.13    # try the wheel with these interpreters as well
    python tools/release.py --oldest python3.10     # and with the oldest versions that pyproject.toml allows

It takes some minutes and publishes nothing. Each check is a line of `dist/RELEASE.txt`; the first failure ends the run
with exit code 1, and the output of the command that failed is shown. The wheel and the sdist are built twice, in two
clones, with the time of the commit as the time of every file, and must be equal byte by byte. The wheel is then
installed into a new environment, where the repository cannot be imported: dependencies must agree, `import eigenmap`
must be quick and must not load torch, and the demo, the trained model, the examples of README and how-tos (small form)
and a smoke test of each extra must run. `dist/TRANSCRIPT.txt` has the examples with their outputs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TRANSCRIPT = DIST / "TRANSCRIPT.txt"
PAGES = [
    *(str(ROOT / name) for name in ("README.md", "docs/quickstart.md", "docs/lengths.md")),
    *map(str, sorted((ROOT / "docs" / "howto").glob("*.md"))),
]
"""Pages whose examples are run with the wheel."""
LARGEST_WHEEL = 10 * 2**20
SLOWEST_IMPORT_S = 1.0
DEMO = ["demo", "--steps", "40", "--out", "demo"]

MODEL = """
        import numpy as np, eigenmap as em
        images = np.random.default_rng(0).integers(0, 255, size=(64, 16, 16), dtype=np.uint8)
        model = em.fit_images(images, n_components=4, steps=2, batch_size=16, progress=False)
    """
"""Begin of a program that needs a small model."""

SMOKE: dict[str, str] = {
    "": """
        import numpy as np, eigenmap as em
        x = np.random.default_rng(0).standard_normal((500, 8))
        assert em.NeuralEigenmap(n_components=3).fit(x).transform(x).shape == (500, 3)
        index = em.CodeIndex(8)
        index.add(x.astype("f4"), [str(i) for i in range(500)])
        assert index.search(x[:1].astype("f4"), top=1).ids[0][0] == "0"
    """,
    "parquet": """
        import numpy as np, pyarrow as pa, pyarrow.parquet as pq, eigenmap as em
        x = np.random.default_rng(0).standard_normal((400, 8)).astype("f4")
        pq.write_table(pa.table({"vector": list(x)}), "x.parquet")
        assert em.fit_vectors("x.parquet", pairs=x + 0.1, n_components=4).encode(x).shape == (400, 4)
    """,
    "postgres": "import psycopg; psycopg.pq.version()",
    "graphs": """
        import networkx as nx, numpy as np, eigenmap as em
        assert len(em.load_graph(nx.karate_club_graph(), np.eye(34))) == 34
    """,
    "ogb": """
        from ogb.nodeproppred import NodePropPredDataset
        from eigenmap.core.errors import EigenmapError
        from eigenmap.data.graphs.sources import load_ogb
        try:
            load_ogb("ogbn-nothing")
        except EigenmapError as error:
            assert "ogbn-nothing" in str(error)
    """,
    "onnx": MODEL
    + """
        from eigenmap.export.onnx import export_onnx
        import onnx
        model.save("to-export")
        export_onnx("to-export", "model.onnx", dim=2)
        onnx.checker.check_model(onnx.load("model.onnx"))
    """,
    "tensorboard": MODEL
    + """
        import pathlib
        em.fit_images(images, n_components=4, steps=2, batch_size=16, out="board", tensorboard=True, progress=False)
        assert list(pathlib.Path("board/tensorboard").glob("events*"))
    """,
    "timm": """
        from eigenmap.networks import build_encoder
        assert build_encoder("resnet10t", 3, 32).out_features == 512
    """,
    "ray": MODEL
    + """
        if __name__ == "__main__":
            from eigenmap.embedding.job import embed_images
            model.save("saved"), np.save("images.npy", images)
            assert embed_images("saved", "images.npy", "codes.npy", engine="ray", actors=1).images == 64
            assert np.allclose(np.load("codes.npy"), model.encode(images), atol=1e-4)
    """,
    "hub": MODEL
    + """
        import huggingface_hub
        model.save("named")
        assert em.Eigenmap.from_pretrained("named").n_components == 4
        assert "someone/birds" in str(huggingface_hub.ModelCard(model.card("someone/birds")))
    """,
    "transformers": """
        import transformers
        from eigenmap.networks import build_encoder
        config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16], depths=[1], layer_type="basic")
        transformers.ResNetModel(config).save_pretrained("resnet")
        assert build_encoder("hf:resnet", 3, 32).out_features == 16
    """,
}
"""Program per extra, run in the clean environment with the extra installed; "" is the wheel alone."""


NEED_PLAIN_TORCH = ("timm",)
"""Extras that bring torchvision, which the index has only for its own builds of torch, not for "+cpu" ones."""
TORCH_VERSION = "import importlib.metadata as m; print(m.version('torch'))"


class ReleaseError(Exception):
    """A check that failed."""


def main() -> int:
    """Build, try, and report; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", nargs="*", default=[name for name in SMOKE if name], help="extras to try")
    parser.add_argument("--pythons", nargs="*", default=[], help="other interpreters to try the wheel with")
    parser.add_argument("--oldest", help="interpreter to try the oldest allowed versions with")
    parser.add_argument("--work", type=Path, help="folder for environments; a temporary one by default")
    arguments = parser.parse_args()
    report: list[str] = []
    times = [time.perf_counter()]

    def say(line: str) -> None:
        report.append(line)
        times.append(time.perf_counter())
        print(f"{line} [{times[-1] - times[-2]:.0f} s]", flush=True)

    try:
        with _folder(arguments.work) as work:
            wheel = build(work, say)
            try_wheel(wheel, work, arguments.extras, say)
            for number, interpreter in enumerate(arguments.pythons):
                try_python(wheel, work / f"python{number}", interpreter, say)
            if arguments.oldest:
                try_python(wheel, work / "oldest", arguments.oldest, say, oldest())
    except (ReleaseError, OSError) as error:
        say(f"FAILED: {error}")
        return 1
    finally:
        DIST.mkdir(exist_ok=True)
        (DIST / "RELEASE.txt").write_text("\n".join(report) + "\n", encoding="utf-8")
    print(f"{DIST.name}/: {', '.join(sorted(path.name for path in DIST.iterdir()))}; nothing has been published.")
    return 0


def build(work: Path, say: Callable[[str], None]) -> Path:
    """Build twice from clean clones, compare, and put wheel, sdist and checksums into dist/."""
    if _run(["git", "status", "--porcelain"], ROOT):
        raise ReleaseError("there are uncommitted changes; commit them first")
    _doing("building wheel and sdist twice")
    commit = _run(["git", "rev-parse", "HEAD"], ROOT)
    when = _run(["git", "log", "-1", "--format=%ct"], ROOT)
    python = _environment(work / "build", ["hatchling"])
    built = []
    for number in (1, 2):
        clone = work / f"clone{number}"
        _run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], work)
        _run(["git", "checkout", "--quiet", commit], clone)
        command = [python, "-m", "hatchling", "build", "-d", "out", "-t", "wheel", "-t", "sdist"]
        _run(command, clone, SOURCE_DATE_EPOCH=when)
        built.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (clone / "out").iterdir()})
    if built[0] != built[1]:
        raise ReleaseError(f"two builds differ: {json.dumps(built)}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(work / "clone1" / "out", DIST)
    (DIST / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(built[0].items())))
    say(f"commit {commit}")
    for name, digest in sorted(built[0].items()):
        say(f"{name}: {(DIST / name).stat().st_size / 2**20:.2f} MiB, sha256 {digest}, equal in two builds")
    (wheel,) = DIST.glob("*.whl")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise ReleaseError(f"{wheel.name} is larger than {LARGEST_WHEEL // 2**20} MiB")
    return wheel


def try_wheel(wheel: Path, work: Path, extras: Sequence[str], say: Callable[[str], None]) -> None:
    """Install the wheel where the repository cannot be seen, and use it."""
    place = work / "elsewhere"
    place.mkdir()
    _doing("installing the wheel")
    python = _environment(work / "clean", [str(wheel), "-c", str(ROOT / "constraints.txt")])
    _run([python, "-m", "pip", "check"], place)
    version = _run([python, "-V"], place).split()[-1]
    say(f"wheel installed with Python {version} and the versions of constraints.txt; pip check passes")
    loaded = "import eigenmap, sys; assert 'site-packages' in eigenmap.__file__; assert 'torch' not in sys.modules"
    _run([python, "-c", loaded], place)
    seconds = min(_seconds(python, place) for _ in range(3))
    if seconds > SLOWEST_IMPORT_S:
        raise ReleaseError(f"import eigenmap takes {seconds:.2f} s")
    say(f"import eigenmap: {seconds:.2f} s, without torch")
    version = _run([python.with_name("eigenmap"), "--version"], place)
    if wheel.name.split("-")[1] != version.split()[-1]:
        raise ReleaseError(f"the wheel is {wheel.name}, but the command says {version}")
    _smoke(python, "", place)
    say("smoke test of the wheel alone passes")
    _doing(f"eigenmap {' '.join(DEMO)}")
    _run([python.with_name("eigenmap"), *DEMO], place)
    if not (place / "demo" / "report.html").is_file():
        raise ReleaseError("the demo wrote no report")
    say(f"eigenmap {' '.join(DEMO)}: trains, measures and writes its report")
    _doing("running the examples of README and how-tos")
    _run([python, work / "clone1" / "tools" / "transcripts.py", "--quick", "--log", TRANSCRIPT.name, *PAGES], place)
    shutil.copyfile(place / TRANSCRIPT.name, TRANSCRIPT)
    say(f"examples of README, quickstart and {len(PAGES) - 3} how-tos run: {TRANSCRIPT.relative_to(ROOT)}")
    for extra in extras:
        if extra in NEED_PLAIN_TORCH and "+" in _run([python, "-c", TORCH_VERSION], place):
            say(f"extra {extra}: left to --pythons, since torchvision does not fit this build of torch")
        else:
            try_extra(python, wheel, extra, place, say)
    _doing("building the site")
    _run([python, "-m", "pip", "install", "--quiet", f"{wheel}[docs]"], place)
    _run([python, work / "clone1" / "tools" / "check_site.py"], place)
    say("the site is built without warnings; links, assets and spelling are fine")


def try_extra(python: Path, wheel: Path, extra: str, place: Path, say: Callable[[str], None]) -> None:
    """Install an extra into an environment that has the wheel, and run its smoke test."""
    _doing(f"installing the extra {extra}")
    _run([python, "-m", "pip", "install", "--quiet", f"{wheel}[{extra}]"], place)
    _run([python, "-m", "pip", "check"], place)
    _smoke(python, extra, place)
    say(f"extra {extra}: installed, pip check and smoke test pass")


def oldest() -> list[str]:
    """Return the oldest version that pyproject.toml allows of each dependency, as requirements."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [re.sub(r">=([\w.]+).*", r"==\1", line) for line in project["dependencies"]]


def try_python(
    wheel: Path, folder: Path, interpreter: str, say: Callable[[str], None], versions: Sequence[str] = ()
) -> None:
    """Install the wheel with another interpreter, and run the smoke test of the wheel alone and a command."""
    _doing(f"installing the wheel with {interpreter}")
    python = _environment(folder, [str(wheel), *versions], interpreter)
    _run([python, "-m", "pip", "check"], folder)
    _smoke(python, "", folder)
    _try_command(python, folder)
    about = "import sys, torch; print(sys.version.split()[0], torch.__version__)"
    number, torch = _run([python, "-c", about], folder).split()
    rest = ", the oldest versions of all dependencies" if versions else ""
    say(f"Python {number} with torch {torch}{rest}: installed; pip check, smoke test and a search pass")
    for extra in NEED_PLAIN_TORCH if not versions else ():
        try_extra(python, wheel, extra, folder, say)


def _try_command(python: Path, place: Path) -> None:
    """Search with the trained model of the wheel."""
    command = str(python.with_name("eigenmap"))
    _run([command, "demo", "--ready", "--quiet"], place)
    search = [command, "search", "runs/ready/catalogue.index", "runs/ready/queries/bag-1.png", "--top", "3"]
    if "train/" not in _run(search, place):
        raise ReleaseError(f"{' '.join(search)} found nothing")


def _smoke(python: Path, extra: str, place: Path) -> None:
    program = place / f"smoke_{extra or 'plain'}.py"  # a file: programs that start others read it again
    program.write_text(dedent(SMOKE[extra]), encoding="utf-8")
    _run([python, program], place)


def _seconds(python: Path, place: Path) -> float:
    """Return the seconds that the import takes beyond the start of Python."""
    code = "import time; began = time.perf_counter(); import eigenmap; print(time.perf_counter() - began)"
    return float(_run([python, "-c", code], place))


def _environment(folder: Path, packages: Sequence[str], interpreter: str = sys.executable) -> Path:
    """Create an environment with packages, and return its Python."""
    _run([interpreter, "-m", "venv", folder], folder.parent)
    python = folder / "bin" / "python"
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], folder)
    return python


def _bare() -> dict[str, str]:
    """Return the environment of this process without anything that leads to the repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def _doing(what: str) -> None:
    """Say what goes on, since the check that follows may take a minute."""
    print(f"... {what}", file=sys.stderr, flush=True)


def _run(command: Sequence[str | Path], place: Path, **variables: str) -> str:
    """Run a command where the repository cannot be seen, and return what it prints; show all of that if it fails."""
    words = list(map(str, command))
    done = subprocess.run(words, cwd=place, env={**_bare(), **variables}, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="", file=sys.stderr, flush=True)
        raise ReleaseError(f"exit code {done.returncode} of {shlex.join(words)}")
    return done.stdout.strip()


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    if given is not None:
        given.mkdir(parents=True)
        yield given.resolve()
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
