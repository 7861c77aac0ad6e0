"""Database addresses, and text that only resembles one.

A place is either a database address, `postgresql://...`, or a path. Anything else that resembles an address is a
mistake, such as an unknown scheme: used as a path, it would create a folder of that name, password included.
"""

from __future__ import annotations

import os
import re

from eigenmap.core.errors import EigenmapError

SCHEMES = ("postgresql://", "postgres://")

_SCHEME = re.compile(r"[\s'\"]*([A-Za-z][\w+.-]+):/")
_KEY = r"(?:host|hostaddr|port|dbname|user|service|sslmode)\s*=\s*"
_CONNECTION = re.compile(rf"[\s'\"]*(?:(?:{_KEY}\S+\s+)+{_KEY}|(?:{_KEY}\S+\s+)*\w*password\s*=)", re.IGNORECASE)
"""Parameters in libpq's key=value form; a folder such as host=a/user=b contains no spaces."""


def is_database(place: object) -> bool:
    """Tell whether this is a database address."""
    return isinstance(place, str) and place.startswith(SCHEMES)


def is_like_address(place: str | os.PathLike[str]) -> bool:
    """Tell whether this resembles an address of any kind; `pathlib` turns two slashes into one.

    >>> is_like_address("mysql://me@host/x"), is_like_address("host=localhost dbname=x"), is_like_address("C:/x")
    (True, True, False)
    """
    text = os.fspath(place)
    return _SCHEME.match(text) is not None or _CONNECTION.match(text) is not None


def require_path(place: str | os.PathLike[str]) -> None:
    """Refuse an address where a file or folder is expected, repeating only its scheme."""
    if is_like_address(place):
        raise EigenmapError(
            f"{scheme_of(place)} is an address, but a file or folder is expected here; "
            "to fill a database table, use `eigenmap index --to postgresql://user@host/name --table photos`"
        )


def require_database(place: str | None) -> str:
    """Return a database address; raise if it is not one."""
    if place is not None and is_database(place):
        return place
    said = "this" if place is None or "@" in place or "=" in place else place
    if place is not None and is_like_address(place):
        said = scheme_of(place)
    raise EigenmapError(f"{said} is not a database address; write postgresql://user@host/name")


def scheme_of(place: str | os.PathLike[str]) -> str:
    """Return the scheme of an address, which is safe to print.

    >>> scheme_of("mysql://me:secret@host")
    'mysql://...'
    """
    found = _SCHEME.match(os.fspath(place))
    return "host=..." if found is None else f"{found[1]}://..."
