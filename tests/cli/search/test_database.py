"""`eigenmap index --to` and `eigenmap search` of a database, against a real server."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eigenmap import Eigenmap, fit_images
from eigenmap.data import load_images
from eigenmap.search import Approximate, CodeIndex
from tests.cli.run import refused, succeed
from tests.database import rows, tables
from tests.end_to_end.photos import pictures


def test_a_folder_of_photos_becomes_a_table(model_dir: Path, photos: Path, database: str) -> None:
    result = succeed("index", model_dir, photos, "--to", database, "--table", "photos")
    assert re.search(r"1 of 16 files.*\n  disc/broken\.jpg: ", result.err)
    assert re.search("15 items of 8.* 15 .*new.* 0 ", result.err)
    images = load_images(photos, size=16, channels=3)
    with CodeIndex.open(database, table="photos") as index:
        assert index.ids == images.ids
        expected = Eigenmap.load(model_dir).encode(images)
        np.testing.assert_allclose(index.codes(images.ids), expected, atol=1e-5)
        assert index.metadata(images.ids) == [{"label": name.split("/")[0]} for name in images.ids]
        assert index.about.approximate is not None and index.about.approximate.dim == 8
    again = succeed("index", model_dir, photos, "--to", database, "--table", "photos", "--batch-size", 4)
    assert re.search("15 items of 8.* 0 .*new.* 0 ", again.err)
    assert tables(database) == ["eigenmap_models", "photos"]


def test_a_load_says_how_many_it_replaced(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos", "--quiet")
    other = tmp_path / "other"
    (other / "bars").mkdir(parents=True)
    shutil.copy(photos / "disc" / "1.png", other / "bars" / "1.png")
    shutil.copy(photos / "disc" / "1.png", other / "bars" / "new.png")
    said = succeed("index", model_dir, other, "--to", database, "--table", "photos").err
    assert re.search("16 items of 8 .* 1 .*new, 1 .*changed .*replaced", " ".join(said.split()))


def test_what_is_for_folders_is_refused(model_dir: Path, photos: Path) -> None:
    for options in (["--add"], ["--replace"], ["--add", "--replace"]):
        asked = ["index", model_dir, photos, "--to", "postgresql://nobody@nowhere/x", "--table", "photos", *options]
        assert re.search("--add.*--replace.*--out", refused(*asked))


def test_a_search_finds_what_a_search_of_a_folder_finds(
    model_dir: Path, photos: Path, index_dir: Path, database: str, tmp_path: Path
) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos", "--quiet")
    query = photos / "bars" / "1.png"
    found = {}
    for name, arguments in {"folder": (index_dir, query), "table": (database, query, "--table", "photos")}.items():
        succeed("search", *arguments, "--dim", 4, "--top", 5, "--json", tmp_path / f"{name}.json")
        found[name] = json.loads((tmp_path / f"{name}.json").read_text())
    ids = [[item["id"] for item in found[name]["results"][0]["found"]] for name in ("folder", "table")]
    assert ids[0] == ids[1] and ids[0][0] == "bars/1.png"
    assert "postgres:" not in (tmp_path / "table.json").read_text()
    only = succeed("search", database, query, "--table", "photos", "--where", "label=disc", "--model", model_dir)
    assert "disc/" in only.out and "stripes/" not in only.out


def test_advice_and_duplicates_of_a_table(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos", "--quiet")
    table = [database, "--table", "photos", "--json", tmp_path / "said.json", "--force", "--quiet"]
    assert "Recommended: --" in succeed("advise", *table, "--top", 3).out
    said = json.loads((tmp_path / "said.json").read_text())
    assert said["items"] == 15 and said["index"].startswith("postgresql://") and "postgres:" not in said["index"]
    with CodeIndex.open(database, table="photos") as index:
        codes = index.codes(["bars/1.png"])
        index.add(2 * codes, ["bars/copy.png"])
    succeed("duplicates", *table, "--threshold", 0.9999)
    groups = json.loads((tmp_path / "said.json").read_text())["groups"]
    assert {"bars/1.png", "bars/copy.png"} <= set(next(g["ids"] for g in groups if "bars/copy.png" in g["ids"]))
    for verb in ("advise", "duplicates"):
        assert "--table photos" in refused(verb, database)
        assert "table other" in refused(verb, database, "--table", "other")
        assert "leave" in refused(verb, tmp_path, "--table", "photos")


def test_codes_that_were_embedded_before(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    succeed("embed", model_dir, photos, "--out", tmp_path / "codes", "--shard-size", 4)
    succeed("index", model_dir, tmp_path / "codes", "--to", database, "--table", "photos", "--dim", 3, "--prefix", 0)
    with CodeIndex.open(database, table="photos") as index:
        codes = index.codes(index.ids)
        assert index.about.approximate is None
    np.testing.assert_allclose(codes, Eigenmap.load(model_dir).encode(load_images(photos, 16, 3), 3), atol=1e-5)
    sentence = refused("index", model_dir, tmp_path / "codes", "--to", database, "--table", "photos", "--dim", 4)
    assert re.search("float32.*3 features", sentence) and "--force" in sentence


def test_half_precision(model_dir: Path, photos: Path, database: str) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos", "--precision", "float16")
    kind = (
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'photos'::regclass AND attname = %s"
    )
    assert rows(database, kind, ["code"]) == [("halfvec(8)",)]
    assert "bars/1.png" in succeed("search", database, photos / "bars" / "1.png", "--table", "photos").out


def test_another_model_is_refused_unless_forced(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    fit_images(
        pictures(60),
        8,
        steps=4,
        batch_size=32,
        codes="projector",
        hidden=64,
        out=other,
        device="cpu",
        progress=False,
        seed=1,
    )
    index = ("--to", database, "--table", "photos")
    succeed("index", model_dir, photos, *index)
    assert re.search("another model.*another table.*--force", refused("index", other, photos, *index))
    sentence = refused("search", database, photos / "bars" / "1.png", "--table", "photos", "--model", other)
    assert "codes of the model" in sentence
    succeed("embed", model_dir, photos, "--out", tmp_path / "codes")
    assert re.search(
        "another model.*RUN", refused("index", other, tmp_path / "codes", "--to", database, "--table", "more")
    )
    succeed("index", other, photos, *index, "--force")
    succeed("search", database, photos / "bars" / "1.png", "--table", "photos")


def test_mistakes(model_dir: Path, photos: Path, database: str, tmp_path: Path) -> None:
    def index(*arguments: object) -> str:
        return refused("index", model_dir, photos, *arguments)

    assert "--out" in index()
    assert "--out" in index("--to", database, "--table", "photos", "--out", tmp_path / "index")
    assert re.search("--backend.*--out", index("--to", database, "--table", "photos", "--backend", "faiss"))
    assert "--table photos" in index("--to", database)
    assert re.search(r"mysql://\.\.\. .*database", index("--to", "mysql://x", "--table", "photos"))
    assert re.search(r"127\.0\.0\.1/x.*reached", index("--to", "postgresql://127.0.0.1:1/x", "--table", "photos"))
    assert re.search("float32.*float16", index("--to", database, "--table", "photos", "--precision", "int8"))
    assert re.search(r"disc/broken\.jpg.*read", index("--to", database, "--table", "photos", "--strict"))
    broken = tmp_path / "broken"
    broken.mkdir()
    shutil.copy(photos / "disc" / "broken.jpg", broken)
    sentence = refused("index", model_dir, broken, "--to", database, "--table", "photos")
    assert "broken.jpg" in sentence
    rows(database, "CREATE TABLE photos (price numeric)")
    assert re.search("table.*columns: price numeric", index("--to", database, "--table", "photos"))
    assert re.search("exists.*table", index("--to", database, "--table", "photos", "--force"))
    assert tables(database) == ["photos"]
    query = photos / "bars" / "1.png"
    assert "table" in refused("search", database, query)
    assert "table gone" in refused("search", database, query, "--table", "gone")


def test_the_approximate_index_of_a_table_stays(model_dir: Path, photos: Path, database: str) -> None:
    index = ("index", model_dir, photos, "--to", database, "--table", "photos", "--quiet")
    succeed(*index, "--prefix", 4)
    succeed(*index)
    succeed(*index, "--prefix", 4)
    for prefix in (0, 2):
        sentence = refused(*index, "--prefix", prefix)
        assert re.search("photos.*--prefix", sentence)
    succeed(*index, "--prefix", 2, "--force")
    with CodeIndex.open(database, table="photos") as made:
        assert made.about.approximate == Approximate(dim=2)


def test_a_long_list_of_columns_is_cut(model_dir: Path, photos: Path, database: str) -> None:
    rows(database, f"CREATE TABLE photos ({', '.join(f'c{i} int' for i in range(9))})")
    sentence = refused("index", model_dir, photos, "--to", database, "--table", "photos")
    assert "c0 integer, c1 integer, c2 integer, c3 integer, c4 integer, ...)" in sentence


def test_a_database_without_the_model(model_dir: Path, photos: Path, database: str) -> None:
    succeed("index", model_dir, photos, "--to", database, "--table", "photos")
    search = ("search", database, photos / "bars" / "1.png", "--table", "photos")
    rows(database, "DELETE FROM eigenmap_models")
    assert re.search("model.*--model", refused(*search))
    rows(database, "DROP TABLE eigenmap_models")
    assert "model" in refused(*search)
    assert "bars/1.png" in succeed(*search, "--model", model_dir).out


@pytest.mark.parametrize("name", ["Bars", "a b"])
def test_any_table_name(name: str, model_dir: Path, photos: Path, database: str) -> None:
    succeed("index", model_dir, photos / "bars", "--to", database, "--table", name)
    assert "1.png" in succeed("search", database, photos / "bars" / "1.png", "--table", name).out


def test_a_table_and_its_model_are_of_one_moment(
    model_dir: Path, photos: Path, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if RUN gets another model while the images are encoded, as by `fit --force`."""
    run, first, encode = shutil.copytree(model_dir, tmp_path / "run"), Eigenmap.fingerprint(model_dir), Eigenmap.encode
    other = Eigenmap.load(run)
    for layer in other.network.projector.parameters():
        torch.nn.init.normal_(layer)

    def replaced_meanwhile(model: Eigenmap, *arguments: Any, **options: Any) -> Any:
        other.save(run)
        return encode(model, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Eigenmap, "encode", replaced_meanwhile)
        succeed("index", run, photos, "--to", database, "--table", "photos", "--quiet")
    assert Eigenmap.fingerprint(run) != first
    with CodeIndex.open(database, table="photos") as index:
        assert index.fingerprint == first
    found = succeed("search", database, photos / "bars" / "1.png", "--table", "photos", "--top", 1)
    assert "bars/1.png" in found.out
