"""Addresses of databases, and what only looks like one.

A place is either the address of a database, `postgresql://...`, or a path. Everything else that reads like an address
is a mistake, such as a scheme that we do not know: as a path it would become a folder of that name, password included.
"""

from __future__ import annotations

import os
import re

from eigenmap.core.errors import EigenmapError

SCHEMES = ("postgresql://", "postgres://")

_SCHEME = re.compile(r"[\s'\"]*([A-Za-z][\w+.-]+):/")
_KEY = r"(?:host|hostaddr|port|dbname|user|service|sslmode)\s*=\s*"
_CONNECTION = re.compile(rf"[\s'\"]*(?:(?:{_KEY}\S+\s+)+{_KEY}|(?:{_KEY}\S+\s+)*\w*password\s*=)", re.IGNORECASE)
"""Names and values as libpq reads them; a folder such as host=a/user=b has no blanks."""


def is_database(place: object) -> bool:
    """Whether this is the address of a database."""
    return isinstance(place, str) and place.startswith(SCHEMES)


def is_like_address(place: str | os.PathLike[str]) -> bool:
    """Whether this reads like an address of any kind; `pathlib` makes one slash of two.

    >>> is_like_address("mysql://me@host/x"), is_like_address("host=localhost dbname=x"), is_like_address("C:/x")
    (True, True, False)
    """
    text = os.fspath(place)
    return _SCHEME.match(text) is not None or _CONNECTION.match(text) is not None


def require_path(place: str | os.PathLike[str]) -> None:
    """Refuse an address where a file or folder is wanted; none of it is repeated but for its scheme."""
    if is_like_address(place):
        raise EigenmapError(
            f"{scheme_of(place)} is an address, and a file or a folder is wanted here; "
            "to fill a table of a database, write eigenmap index --to postgresql://user@host/name --table photos"
        )


def require_database(place: str | None) -> str:
    """The address of a database, if it is one."""
    if place is not None and is_database(place):
        return place
    said = "this" if place is None or "@" in place or "=" in place else place
    if place is not None and is_like_address(place):
        said = scheme_of(place)
    raise EigenmapError(f"{said} is no address of a database; write postgresql://user@host/name")


def scheme_of(place: str | os.PathLike[str]) -> str:
    """What an address may be called by: its scheme.

    >>> scheme_of("mysql://me:secret@host")
    'mysql://...'
    """
    found = _SCHEME.match(os.fspath(place))
    return "host=..." if found is None else f"{found[1]}://..."
