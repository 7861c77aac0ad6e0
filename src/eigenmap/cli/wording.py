"""Messages of the library in the words of the command line: options in place of Python's arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

ALIASES = {"overwrite": "--force", "replace": "--force", "n_components": "--components"}
"""Arguments whose option has another name; used if the verb has that option."""
SEVERAL = {"dim": "--dims"}
"""The same for arguments that an option takes several of, unless the verb has an option of the argument's own name."""
ANYWHERE = {"force": "--force", "resume": "--resume", "bytes_per_item": "--bytes-per-item"}
"""Options that messages of one verb recommend for another."""
PHRASES = {"CodeIndex(where=PATH)": "`eigenmap index`"}
"""What Python has in place of a verb."""
FLAGS = {"standardisation=IMAGENET_STANDARDISATION": "imagenet"}
"""Arguments with a value for which there is a flag, and its argument."""


_ARGUMENT = re.compile(
    r"(?<![\w.\-/`'\"])(?P<name>[a-z][a-z_]*)(?P<given>=True|=(?=[\s.,;)]|$)|=[\w.\-]*\w)?(?![\w=/(]|\.\w)"
)
"""A word that may be an argument, with its value if one is given."""


def options_of(command: Any) -> dict[str, str]:
    """Return the options of a command and of the commands below it: argument -> longest name, "--bytes-per-item"."""
    found = ANYWHERE | dict(_options(command))
    known = set(found.values())
    several = {name: option for name, option in SEVERAL.items() if option in known}
    return several | found | {name: option for name, option in ALIASES.items() if option in known}


def _options(command: Any) -> Iterator[tuple[str, str]]:
    for below in getattr(command, "commands", {}).values():
        yield from _options(below)
    for param in command.params:
        names = [name for name in param.opts if name.startswith("--")]
        if names:
            yield param.name, max(names, key=len)


def in_command_words(message: str, options: Mapping[str, str]) -> str:
    """Replace arguments by options: `force=True`, `lr=0.1`, every name with an underscore, and a first word.

    >>> options = {"force": "--force", "bytes_per_item": "--bytes-per-item", "lr": "--lr"}
    >>> in_command_words("choose another, or use force=True; bytes_per_item must be 1 to 8", options)
    'choose another, or use --force; --bytes-per-item must be 1 to 8'
    >>> in_command_words("Try lr=0.1, or clip_norm=1; force is not an option here", options)
    'Try --lr 0.1, or clip_norm=1; force is not an option here'
    >>> in_command_words("lr must be a number above 0, not 0", options)
    '--lr must be a number above 0, not 0'
    """

    def told(match: re.Match[str]) -> str:
        name, given = match["name"], match["given"]
        if FLAGS.get(match[0]) in options:
            return options[FLAGS[match[0]]]
        option = options.get(name)
        is_subject = match.start() == 0 and message[match.end() :].startswith(" must be ")
        if option is None or (given is None and "_" not in name and not is_subject):
            return match[0]
        return option if given in (None, "=True", "=") else f"{option} {given[1:]}"

    for phrase, verb in PHRASES.items():
        message = message.replace(phrase, verb)
    return _ARGUMENT.sub(told, message)
