"""Redaction of passwords in text.

All text that leaves the package goes through `redacted`: the message of every `EigenmapError`, every line that the
command line prints, every address that a file records. It hides too much rather than too little, because the end of a
password in a misspelled address is unknown.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

_EXAMPLE = "postgresql://user@"
"""Beginning of the addresses in our own messages, which have no password."""

_ADDRESS = re.compile(r"(?<![\w+.-])(?!\d)([\w+.-]{2,}:/+)(\S*)")
_DRIVE = re.compile(r"\W*[A-Za-z]:[\\/]")
_PLACE = re.compile(r"(?:[^:\[\]]*|\[[\da-fA-F:.]*\])(?::\d{0,5})?")
"""A host with an optional port."""

_IMAGE = re.compile(r"@[^@/\\:?#&=,]*\.(?:jpe?g|png|gif|webp|bmp|tiff?|heic|avif)[.,;:)'\"`]*", re.IGNORECASE)
"""Image file names, such as `@2x.jpg`; no host name ends like that."""

_NAME = re.compile(r"(?<![\w%.+-])([\w%.+-]+)(?:['\"]\s*:|['\"]?\s*=)\s*")
_SECRET = re.compile(r"(?:password|passwd|passphrase|passfile|pass|pwd|secret)$")
_QUOTED = re.compile(r"""(?:'(?:\\.|[^'\\])*'?|"(?:\\.|[^"\\])*"?)\S*""", re.DOTALL)
_IN_URL = re.compile(r"[^\n]*")
_IN_WORDS = re.compile(r"\S*(?:[^\S\n]+(?![\w%.+-]+\s*=)\S*)*")


def redacted(text: str) -> str:
    """Replace users, passwords and password parameters in the text by `***`.

    >>> redacted("postgresql://me:pa/ss@host/db")
    'postgresql://***@host/db'
    >>> redacted("host=localhost password=mine user=me")
    'host=localhost password=*** user=me'
    """
    lines = _without_parameters(text).split("\n")
    return "\n".join(_EXAMPLE.join(map(_without_users, line.split(_EXAMPLE))) for line in lines)


def _without_parameters(text: str) -> str:
    """Hide the values of `password=...` and similar; unquoted values may contain spaces."""
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
    """Hide users and passwords; an address may contain spaces, so it extends to the last @."""
    if "@" not in line:
        return _ADDRESS.sub(_without_password, line)
    found = _ADDRESS.search(line)
    if found is None:
        return re.sub(r"\S+", lambda word: _hidden_word(word[0]), line)
    begin = _word(line, found.start())
    return re.sub(r"\S+", lambda word: _hidden_word(word[0]), line[:begin]) + _hidden(line[begin:])


def _word(line: str, place: int) -> int:
    """Return the start of the word that contains this position."""
    while place and not line[place - 1].isspace():
        place -= 1
    return place


def _hidden_word(word: str) -> str:
    """Redact a word without a scheme, which may also be the name of an image such as `12:30@2x.jpg`."""
    return word if _IMAGE.fullmatch(word, max(0, word.rfind("@"))) else _hidden(word)


def _hidden(text: str) -> str:
    """Hide everything between the first colon, with its slashes, and the last @."""
    drive = _DRIVE.match(text)
    colon, at = text.find(":", drive.end() if drive else 0), text.rfind("@")
    if not 0 <= colon < at:
        return text
    slashes = re.compile("/*").match(text, colon + 1)
    return f"{text[: slashes.end() if slashes else colon]}{HIDDEN}{text[at:]}"


def _without_password(address: re.Match[str]) -> str:
    """Redact an address without @, which may be a user and password with the host forgotten."""
    scheme, rest = address.groups()
    places = re.split(r"[/?#]", rest, maxsplit=1)[0].rstrip(".;)'\"`")
    return address[0] if all(_PLACE.fullmatch(place) for place in places.split(",")) else scheme + HIDDEN
