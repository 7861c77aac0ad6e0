"""Redaction: text without the passwords of the addresses in it.

Everything that leaves the package as text goes through `redacted`: the sentence of every `EigenmapError`, every line
that the command line prints, every address that a file records. It hides too much rather than too little: an address
may be misspelled, and then nobody can say where its password ends.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

_EXAMPLE = "user@"
"""How the addresses in our own advice begin; they have no password."""

_SCHEME = re.compile(r"(?<![\w+.-])(?!\d)[\w+.-]{2,}:/+")
_DRIVE = re.compile(r"\W*[A-Za-z]:[\\/]")
_PLACE = re.compile(r"(?:[^:\[\]]*|\[[\da-fA-F:.]*\])(?::\d{0,5})?")
"""A host and perhaps a port."""

_NAME = re.compile(r"(?<![\w%.+-])([\w%.+-]+)(?:['\"]\s*:|['\"]?\s*=)\s*")
_SECRET = re.compile(r"(?:password|passwd|passphrase|passfile|pass|pwd|secret)$")
_QUOTED = re.compile(r"""(?:'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?)\S*""", re.DOTALL)
_IN_URL = re.compile(r"[^\n]*")
_IN_WORDS = re.compile(r"\S*(?:[^\S\n]+(?![\w%.+-]+\s*=)\S*)*")


def redacted(text: str) -> str:
    """The text with `***` in place of users, passwords and parameters that are passwords.

    >>> redacted("postgresql://me:pa/ss@host/db")
    'postgresql://***@host/db'
    >>> redacted("host=localhost password=mine user=me")
    'host=localhost password=*** user=me'
    """
    text = _without_parameters(text)
    return "\n".join(map(_without_users, text.split("\n"))) if "@" in text or ":/" in text else text


def _without_parameters(text: str) -> str:
    """Hide the values of `password=...` and its like; one without quotes may contain blanks."""
    parts, done = [], 0
    for found in _NAME.finditer(text):
        begin = found.end()
        if found.start() < done or not _SECRET.search(unquote(found[1]).lower()):
            continue
        in_url = text.endswith(("?", "&"), 0, found.start())
        quoted = None if in_url else _QUOTED.match(text, begin)
        value = quoted or (_IN_URL if in_url else _IN_WORDS).match(text, begin)
        quote = text[begin] if quoted else ""
        parts += [text[done:begin], quote, HIDDEN, quote]
        done = value.end() if value else begin
    return "".join([*parts, text[done:]])


def _without_users(line: str) -> str:
    """One line, cut where addresses begin: each of them may contain blanks, and ends before the next at the latest."""
    found = list(_SCHEME.finditer(line))
    if not found:
        return _without_bare_users(line)
    ends = [*(later.start() for later in found[1:]), len(line)]
    addresses = (scheme[0] + _without_user(line[scheme.end() : end]) for scheme, end in zip(found, ends, strict=True))
    return _without_bare_users(line[: found[0].start()]) + "".join(addresses)


def _without_user(rest: str) -> str:
    """What follows a scheme and its slashes."""
    if rest.startswith(_EXAMPLE):
        return _EXAMPLE + _without_bare_users(rest.removeprefix(_EXAMPLE))
    if "@" in rest:
        return f"{HIDDEN}@{rest.rpartition('@')[2]}"
    # Without an @ it may still be a user and a password, of somebody who forgot the host.
    places = re.split(r"[\s/?#]", rest, maxsplit=1)[0].rstrip(".;)'\"`")
    if all(_PLACE.fullmatch(place) for place in places.split(",")):
        return rest
    return re.sub(r"\S+", HIDDEN, rest, count=1)


def _without_bare_users(text: str) -> str:
    """Text without schemes: hide `:password@` in each of its words."""
    return re.sub(r"\S+", lambda word: _without_bare_user(word[0]), text) if "@" in text else text


def _without_bare_user(word: str) -> str:
    drive = _DRIVE.match(word)
    colon, at = word.find(":", drive.end() if drive else 0), word.rfind("@")
    if not 0 <= colon < at:
        return word
    slashes = len(word[colon + 1 :]) - len(word[colon + 1 :].lstrip("/"))
    return f"{word[: colon + 1 + slashes]}{HIDDEN}{word[at:]}"
