"""The exceptions a user can cause."""


class EigenmapError(ValueError):
    """Something the caller can put right; the message is one clear sentence that says how.

    The command line prints it and exits with code 2.
    """


class ReplacedError(EigenmapError):
    """The index was replaced by one of another model or shape while it was open."""


class UnknownIdError(EigenmapError):
    """The index has no item with this id."""
