from __future__ import annotations

from pathlib import Path

import pytest

from eigenmap import EigenmapError
from eigenmap.core.addresses import is_like_address, require_database, require_path
from eigenmap.core.arguments import a_path


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://host/db",
        "Postgres://host",
        " mysql://host",
        "'redis://host",
        "s3:/bucket",
        "host=here dbname=x",
        "user = me password=x",
        "password=x",
        "PASSWORD=x host=y",
    ],
)
def test_what_reads_like_an_address(text: str) -> None:
    assert is_like_address(text) and is_like_address(Path(text))
    for check in (require_path, lambda place: a_path(place, "out")):
        with pytest.raises(EigenmapError, match=r"address.*eigenmap index --to postgresql://user@host/name"):
            check(text)


@pytest.mark.parametrize(
    "text",
    ["photos", "./a:/b", "C:/photos", "C:\\photos", "a:b", "host=a/user=b", "host=a", "pass=1/x.png", "photos@2x"],
)
def test_paths_that_are_none(text: str) -> None:
    require_path(text)
    assert a_path(text, "out") == Path(text)


def test_what_is_no_address_of_a_database() -> None:
    assert require_database("postgres://host/db") == "postgres://host/db"
    for place, said in {"photos": "photos", "me:a b@host": "this", "mysql://me:x@host": r"mysql://\.\.\."}.items():
        with pytest.raises(EigenmapError, match=f"^{said} .*postgresql://user@host/name"):
            require_database(place)
