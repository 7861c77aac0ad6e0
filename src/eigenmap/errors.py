"""The one exception a user can cause."""


class EigenmapError(ValueError):
    """Something the caller can put right; the message is one clear sentence that says how.

    The command line prints it and exits with code 2.
    """
