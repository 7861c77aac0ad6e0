"""No spelling of an address lets its password through."""

from __future__ import annotations

import pickle
import string
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eigenmap import EigenmapError
from eigenmap.core.redaction import redacted

# What stands around a password never contains these, so that any of them in the result is of the password.
LETTERS = "QXZJKV0123456789"
ODD = "@/:?#&%='\"\\ ;,.+-~!$^*()[]{}<>|`é漢"

SCHEMES = ["postgresql", "postgres", "POSTGRESQL", "postgresql+psycopg", "mysql", "https", "redis", "jdbc:postgresql"]

# {p} is the password as it is, {e} percent-encoded, {s} in a connection string with quotes.
SPELLINGS = [
    *(f"{scheme}://me:{{p}}@host/db" for scheme in SCHEMES),
    "postgresql://me:{e}@host:5432/db?sslmode=require",
    "postgresql://:{p}@host",
    "postgresql://{p}@host/db",
    "postgresql://me%3A{e}@host/db",
    "postgresql://me:{p}@one:1,two:2/db",
    "postgresql://me:{p}@[::1]:5432/db",
    "postgresql://me:{p}@/db?host=/tmp",
    "postgresql:/me:{p}@host/db",
    "postgresql:///me:{p}@host/db",
    "  postgresql://me:{p}@host/db",
    "'postgresql://me:{p}@host/db'",
    '"postgresql://me:{p}@host/db',
    "./postgresql://me:{p}@host/db",
    "--to=postgresql://me:{p}@host/db",
    "postgresql://host/db?user=me&password={p}",
    "postgresql://host/db?password={e}&sslmode=require",
    "postgresql://host/db?PASSWORD={p}",
    "postgresql://host/db?p%61ssword={p}",
    "postgresql://host/db?sslpassword={p}",
    "postgresql://host/db?passfile={p}",
    "postgresql://me:{e}",
    "postgresql://me:{e}/db",
    "postgresql://me:{e}%40host/db",
    "host=host user=me password={s} dbname=db",
    "host=host password = {s}",
    "PGPASSWORD={s} eigenmap",
    "dbname=db PassWord={s}",
    "{{'user': 'me', 'password': {s}}}",
]
# Without a scheme a blank may be anything.
BARE = [
    "postgresql:me:{b}@host/db",
    "postgresql//me:{b}@host/db",
    "://me:{b}@host",
    "//me:{b}@host",
    "me:{b}@host/db",
    "me:{b}@host/a.jpg",
]

SENTENCES = [
    "{}",
    "{} is no folder",
    "cannot read {}: there is none",
    "of {} and {}",
    "{}; write postgresql://user@host/x",
]


def spelled(spelling: str, password: str) -> str:
    quoted = "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return spelling.format(p=password, e=quote(password, safe=""), s=quoted, b="".join(password.split()))


passwords = st.text(LETTERS + ODD, min_size=6, max_size=20).filter(lambda text: sum(c in LETTERS for c in text) >= 6)


@settings(max_examples=1000)
@given(st.sampled_from(SPELLINGS + BARE), st.sampled_from(SENTENCES), passwords)
def test_nothing_of_a_password_is_left(spelling: str, sentence: str, password: str) -> None:
    around = set(sentence + spelling.replace("5432", "").replace(":1", "").replace(":2", ""))
    address = spelled(spelling, password)
    result = redacted(sentence.format(address, address))
    left = (
        result.replace("5432", "").replace("one:1,two:2", "").replace("::1", "").replace("%40", "").replace("%61", "")
    )
    left = left.replace("%3A", "")
    assert not [letter for letter in LETTERS if letter in left and letter not in around - set(string.digits)], result


@given(st.sampled_from(SPELLINGS + BARE), passwords)
def test_an_error_and_what_pickles_it_are_clean(spelling: str, password: str) -> None:
    address = spelled(spelling, password)
    error = pickle.loads(pickle.dumps(EigenmapError(f"{address} cannot be read")))
    assert str(error) == redacted(f"{address} cannot be read")
    assert password not in str(error) and password not in repr(error)


@pytest.mark.parametrize(
    "text",
    [
        "write postgresql://user@host/name",
        "http://127.0.0.1:8000/?token=0123456789abcdef",
        "http://[::1]:8000/",
        "the database at postgresql://one:1,two:2/db cannot be reached",
        "C:/pictures/me@home/a.png and C:\\me@home",
        "icon@2x.png: unreadable",
        "folder/a:b.png",
        "photos/12:30@2x.jpg cannot be read",
        "12:30@2x.PNG: unreadable, and 'a:b@c.tiff'.",
        "passes=3 of the password",
        "see https://host/page#part, or https://host.",
        "2024-01-01T12:30:00",
    ],
)
def test_what_holds_no_password_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "me:QQQ@host/a.jpg",
        "me:QQQ@host:1/a.jpg",
        "me:QQQ@a.jpg@host/db",
        "me:QQQ@a.jpg/db",
        "me:QQQ@host?a.jpg",
        "postgresql//me:QQQ@host/a.png",
        "postgresql://me:QQQ@a.png",
        "cannot read 12:30@2x.jpg of postgresql://me:QQQ@x.png",
        "me:QQQ@jpg",
        "me:QQQ@host.jpg.example",
    ],
)
def test_an_address_that_ends_like_an_image_is_still_one(text: str) -> None:
    assert "QQQ" not in redacted(text)


@given(st.text(LETTERS + ODD + "pasword=:/@\n", max_size=60))
def test_twice_hides_no_less(text: str) -> None:
    once = redacted(text)
    assert redacted(redacted(once)) == redacted(once)


@pytest.mark.parametrize(
    "piece", ["a", "a:", "ab:/", "ab://", "a:b@", " ", "password=", "pass=' ", "a=", "@", "ab:/@ "]
)
def test_long_texts_are_read_once(piece: str) -> None:
    """Were every address looked for from every place, this would take longer than any test may."""
    text = piece * 200_000
    assert len(redacted(text)) <= len(text) + 600_000
