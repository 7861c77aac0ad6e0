"""The exceptions a user can cause."""

from eigenmap.core.redaction import redacted


class EigenmapError(ValueError):
    """Something the caller can put right; the message is one clear sentence that says how.

    The command line prints it and exits with code 2. A password in the message, as part of an address that was given
    for a path, say, is hidden.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(redacted(str(message)))


class ReplacedError(EigenmapError):
    """The index was replaced by one of another model or shape while it was open."""


class UnknownIdError(EigenmapError):
    """The index has no item with this id."""
