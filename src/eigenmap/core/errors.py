"""Exceptions that a user can cause."""

from eigenmap.core.redaction import redacted


class EigenmapError(ValueError):
    """An error that the caller can correct; its message is one clear sentence that says how.

    The command line prints the message and exits with code 2. Passwords in the message, for example in an address given
    in place of a path, are hidden.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(redacted(str(message)))


class ReplacedError(EigenmapError):
    """The index was replaced by one of another model or shape while it was open."""


class UnknownIdError(EigenmapError):
    """The index has no item with this id."""
