"""Addresses of databases on the command line and in Python: no password is printed, and none becomes a folder."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from eigenmap import Eigenmap, EigenmapError, fit_images
from eigenmap.embedding import embed_images
from eigenmap.export import export_faiss, export_onnx, export_parquet
from eigenmap.search import CodeIndex
from eigenmap.search.backend import IndexSpec, ItemBatch
from tests.cli.run import refused, run, succeed
from tests.search.building import build_index

SECRET = "Zq7"

# Nothing listens on port 1.
SPELLINGS = [
    "postgresql://me:{}@127.0.0.1:1/db",
    "postgres://me:{}@127.0.0.1:1/db",
    "POSTGRESQL://me:{}@127.0.0.1:1/db",
    "Postgres://me:{}@127.0.0.1:1/db",
    "postgresql+psycopg://me:{}@127.0.0.1:1/db",
    "postgresql://me:{}@127.0.0.1:1,127.0.0.1:1/db",
    "postgresql://me:{}@/db?host=127.0.0.1&port=1",
    "postgresql://127.0.0.1:1/db?user=me&password={}",
    "postgresql://127.0.0.1:1/db?password={}&user=me",
    "postgresql://me@127.0.0.1:1/db?sslpassword={}",
    "postgresql://127.0.0.1:1/db?p%61ssword={}",
    "postgresql://me:{}@",
    "postgresql://me:{}@[::1/db",
    "postgresql://:{}@127.0.0.1:1",
    "postgresql:/me:{}@127.0.0.1:1/db",
    "postgresql:me:{}@127.0.0.1:1/db",
    "postgresql//me:{}@127.0.0.1:1/db",
    " postgresql://me:{}@127.0.0.1:1/db",
    "'postgresql://me:{}@127.0.0.1:1/db'",
    '"postgresql://me:{}@127.0.0.1:1/db"',
    "mysql://me:{}@127.0.0.1:1/db",
    "jdbc:postgresql://me:{}@127.0.0.1:1/db",
    "host=127.0.0.1 port=1 user=me password={}",
    "host=127.0.0.1 password = '{}' dbname=db",
    "password={} host=127.0.0.1 port=1",
    "me:{}@127.0.0.1:1/db",
]
PASSWORDS = [
    "Zq7",
    "Zq7@Zq7",
    "Zq7/Zq7",
    "Zq7%40Zq7",
    "Zq7%Zq7",
    "Zq7:Zq7",
    "Zq7?Zq7#Zq7&Zq7=Zq7",
    "Zq7\\Zq7",
    "Zq7éZq7",
]
CLEAR = [spelling for spelling in SPELLINGS if "://" in spelling and not spelling.startswith("jdbc")]
"""Those that anybody would call an address, or, after pathlib has made one slash of two, would have."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in: what is made by mistake is made here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "2")
    return tmp_path


@pytest.mark.parametrize("number", range(len(SPELLINGS)))
def test_no_spelling_is_printed(number: int, model_dir: Path, photos: Path, folder: Path) -> None:
    """In every place of the command line that takes an address, and in some that take a path."""
    for password, words in zip(
        [*PASSWORDS[number % 9 :], *PASSWORDS[: number % 9]],
        [
            ("index", model_dir, photos, "--to", "{}", "--table", "photos"),
            ("index", model_dir, photos, "--to={}", "--tabel", "photos"),
            ("search", "{}", photos / "bars" / "1.png", "--table", "photos"),
            ("advise", "{}", "--table", "photos"),
            ("duplicates", "{}", "--table", "photos"),
            ("export", "{}", "--to", "codes.parquet", "--table", "photos"),
            ("serve", "{}", "--port", 0),
            ("info", "{}"),
            ("report", "{}", "{}"),
        ],
        strict=True,
    ):
        address = SPELLINGS[number].format(password)
        result = run(*(str(word).replace("{}", address) for word in words))
        assert result.code == 2, (words, result)
        assert SECRET not in result.out + result.err, (words, result)
        assert "Traceback" not in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("spelling", CLEAR)
def test_an_address_is_no_path(spelling: str, model_dir: Path, photos: Path, index_dir: Path, folder: Path) -> None:
    address = spelling.format("Zq7/Zq7")
    for words in (
        ("index", model_dir, photos, "--out", address),
        ("index", model_dir, photos, "--out", address, "--add"),
        ("embed", model_dir, photos, "--out", address),
        ("embed", model_dir, photos, "--out", f"{address}.npy"),
        ("export", index_dir, "--to", f"{address}.parquet"),
        ("export", model_dir, "--to", f"{address}.onnx"),
        ("fit", "images", photos, "--out", address),
        ("demo", "--out", address),
        ("report", model_dir, "--out", f"{address}.html"),
        ("search", index_dir, photos / "bars" / "1.png", "--json", f"{address}.json"),
    ):
        sentence = refused(*words)
        assert SECRET not in sentence, words
        assert "eigenmap index --to postgresql://user@host/name --table photos" in sentence, (words, sentence)
    assert list(folder.iterdir()) == []


DOORS: dict[str, Callable[[str, Path, Path], object]] = {
    "CodeIndex": lambda address, model, index: CodeIndex(2, where=address),
    "faiss": lambda address, model, index: CodeIndex(2, backend="faiss", where=address),
    "open": lambda address, model, index: CodeIndex.open(address),
    "save": lambda address, model, index: CodeIndex.open(index).save(address),
    "build": lambda address, model, index: build_index(
        IndexSpec(2), [ItemBatch(["a"], np.ones((1, 2), np.float32), [{}])], address, overwrite=False, model_dir=None
    ),
    "Eigenmap.save": lambda address, model, index: Eigenmap.load(model).save(address),
    "Eigenmap.load": lambda address, model, index: Eigenmap.load(address),
    "embed_images": lambda address, model, index: embed_images(model, index, address),
    "fit_images": lambda address, model, index: fit_images(np.zeros((9, 8, 8), np.uint8), 2, out=address),
    "export_parquet": lambda address, model, index: export_parquet(CodeIndex.open(index), address),
    "export_faiss": lambda address, model, index: export_faiss(CodeIndex.open(index), address),
    "export_onnx": lambda address, model, index: export_onnx(model, address),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_address_is_no_path_in_python(door: str, model_dir: Path, index_dir: Path, folder: Path) -> None:
    for spelling in CLEAR:
        if door == "open" and spelling.startswith(("postgresql://", "postgres://")):
            continue
        with pytest.raises(EigenmapError) as error:
            DOORS[door](spelling.format("Zq7"), model_dir, index_dir)
        assert SECRET not in str(error.value)
        assert "address" in str(error.value) or "backend=" in str(error.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("place", ["mysql://me:Zq7@host/x", "s3://bucket/index", "host=here dbname=x"])
def test_other_addresses_are_named_by_their_scheme(place: str, model_dir: Path, photos: Path) -> None:
    sentence = refused("index", model_dir, photos, "--to", place, "--table", "photos")
    scheme = place.partition(":")[0] + "://..." if "://" in place else "host=..."
    assert re.search(f"^{scheme} .*postgresql://user@host/name", sentence)


def test_files_record_no_password(model_dir: Path, photos: Path, database: str, folder: Path) -> None:
    address = f"{database}&password=Zq7"
    succeed("index", model_dir, photos, "--to", address, "--table", "photos")
    succeed("search", address, photos / "bars" / "1.png", "--table", "photos", "--json", "found.json")
    succeed("advise", address, "--table", "photos", "--top", 3, "--json", "advice.json")
    succeed("duplicates", address, "--table", "photos", "--json", "groups.json")
    written = sorted(folder.glob("*.json"))
    assert len(written) == 3
    for file in written:
        assert SECRET not in file.read_text() and json.loads(file.read_text())["index"].startswith("postgresql://")


def test_a_traceback_holds_no_password() -> None:
    """One that nobody foresaw, printed by Python itself."""
    program = (
        "import eigenmap.cli as cli\n"
        "def broken(): raise RuntimeError('postgresql://me:Zq7@host/db')\n"
        "cli.app = broken\n"
        "cli.main()\n"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "RuntimeError: postgresql://***@host/db" in result.stderr
    assert "raise RuntimeError('postgresql://***@host/db')" in result.stderr or SECRET not in result.stderr
