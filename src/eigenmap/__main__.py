"""`eigenmap` and `python -m eigenmap`: the command line."""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import suppress


def main() -> None:
    """Run the command line; time limits count from here."""
    began, ending = time.perf_counter(), Ending()
    try:
        from eigenmap import cli

        cli.main(began)
    except KeyboardInterrupt:  # during imports; the command line handles its own
        sys.stderr.write("Error: stopped.\n")
        ending.code = 130
        sys.exit(130)
    except SystemExit as ended:
        ending.code = ended.code
        raise


class Ending:
    """End of the process after every other exit handler, without the teardown of modules.

    The teardown frees memory that the system frees anyway. With torch it takes half a second of CPU time, and twenty
    seconds on a machine where eight other processes compute.
    """

    def __init__(self) -> None:
        self.code: object = ""
        atexit.register(self.leave)  # the first to be registered is the last to be called

    def leave(self) -> None:
        """End the process with its exit code, unless it ends in another way, such as with a traceback."""
        if self.code is None or isinstance(self.code, int):
            for stream in (sys.stdout, sys.stderr):
                with suppress(AttributeError, OSError, ValueError):  # there is no stream, or it is closed
                    stream.flush()
            os._exit(self.code or 0)


if __name__ == "__main__":
    main()
