"""Redaction: text without the passwords of the addresses in it.

Everything that leaves the package as text goes through `redacted`: the sentence of every `EigenmapError`, every line
that the command line prints, every address that a file records. It hides too much rather than too little: an address
may be misspelled, and then nobody can say where its password ends.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"

_EXAMPLE = "postgresql://user@"
"""How the addresses in our own advice begin; they have no password."""

_ADDRESS = re.compile(r"(?<![\w+.-])(?!\d)([\w+.-]{2,}:/+)(\S*)")
_DRIVE = re.compile(r"\W*[A-Za-z]:[\\/]")
_PLACE = re.compile(r"(?:[^:\[\]]*|\[[\da-fA-F:.]*\])(?::\d{0,5})?")
"""A host and perhaps a port."""

_IMAGE = re.compile(r"@[^@/\\:?#&=,]*\.(?:jpe?g|png|gif|webp|bmp|tiff?|heic|avif)[.,;:)'\"`]*", re.IGNORECASE)
"""The end of the name of an image; there are no hosts of such names."""

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
    lines = _without_parameters(text).split("\n")
    return "\n".join(_EXAMPLE.join(map(_without_users, line.split(_EXAMPLE))) for line in lines)


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
    """Hide users and passwords; an address may contain blanks, so that it ends at the last @ there is."""
    if "@" not in line:
        return _ADDRESS.sub(_without_password, line)
    found = _ADDRESS.search(line)
    if found is None:
        return re.sub(r"\S+", lambda word: _hidden_word(word[0]), line)
    begin = _word(line, found.start())
    return re.sub(r"\S+", lambda word: _hidden_word(word[0]), line[:begin]) + _hidden(line[begin:])


def _word(line: str, place: int) -> int:
    """Where the word that contains this place begins."""
    while place and not line[place - 1].isspace():
        place -= 1
    return place


def _hidden_word(word: str) -> str:
    """The same of a word that is no address with a scheme, and may be the name of an image: `12:30@2x.jpg`."""
    return word if _IMAGE.fullmatch(word, max(0, word.rfind("@"))) else _hidden(word)


def _hidden(text: str) -> str:
    """Text with what is between its first colon, with slashes, and its last @ hidden."""
    drive = _DRIVE.match(text)
    colon, at = text.find(":", drive.end() if drive else 0), text.rfind("@")
    if not 0 <= colon < at:
        return text
    slashes = re.compile("/*").match(text, colon + 1)
    return f"{text[: slashes.end() if slashes else colon]}{HIDDEN}{text[at:]}"


def _without_password(address: re.Match[str]) -> str:
    """An address without an @ may still be a user and a password, of somebody who forgot the host."""
    scheme, rest = address.groups()
    places = re.split(r"[/?#]", rest, maxsplit=1)[0].rstrip(".;)'\"`")
    return address[0] if all(_PLACE.fullmatch(place) for place in places.split(",")) else scheme + HIDDEN
