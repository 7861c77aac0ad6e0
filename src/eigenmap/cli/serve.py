"""`eigenmap serve`: explore an index in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from eigenmap.cli.app import USE, app
from eigenmap.cli.console import note, print_result
from eigenmap.cli.options import HOW, QuietOption, argument, option
from eigenmap.core.addresses import is_database, require_path
from eigenmap.core.errors import EigenmapError
from eigenmap.core.words import count

if TYPE_CHECKING:
    from eigenmap.service.explorer import Explorer


@app.command(
    rich_help_panel=USE,
    no_args_is_help=True,
    epilog="""
Examples:

[cyan]  eigenmap serve photos.index[/cyan]

[cyan]  eigenmap serve photos.index --images PHOTOS/[/cyan]

[cyan]  eigenmap serve photos.index --host 0.0.0.0 --token "$(openssl rand -hex 16)"[/cyan]
""",
)
def serve(
    index: Annotated[str, argument("INDEX", "A folder written by `eigenmap index --out`, or a file of vectors.")],
    images: Annotated[
        Path | None, option("--images FOLDER", "The indexed folder, for pictures larger than those in the index.")
    ] = None,
    port: Annotated[int, option("--port -p N", "Port; 0 takes a free one.", shown=True)] = 8000,
    host: Annotated[
        str, option("--host ADDRESS", "0.0.0.0 for all networks; requires --token.", HOW, shown=True)
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        option("--token SECRET", "Secret that grants access, at least 16 characters.", HOW, envvar="EIGENMAP_TOKEN"),
    ] = None,
    timeout: Annotated[float, option("--timeout SECONDS", "Stop searches that take longer.", HOW, shown=True)] = 30.0,
    quiet: QuietOption = False,
) -> None:
    """Explore an index in the browser: search by picture or vector, change the code length, look at each feature.

    Only this machine can reach the page unless --host is given. Uploads are never written to disk.
    """
    from eigenmap.service.server import check_exposure, listen, url

    check_exposure(host, token)
    if not 0 < timeout <= 86_400:
        raise EigenmapError(f"--timeout must be above 0 and at most 86400 seconds, not {timeout:g}")
    if is_database(index):
        raise EigenmapError("The page shows an index in a folder, not a table: create one with `eigenmap index --out`.")
    require_path(index)
    with listen(host, port) as listening:
        from eigenmap.service.app import create_app
        from eigenmap.service.scheduling import Limits
        from eigenmap.service.server import serve as answer

        explorer = _explorer(Path(index), images)
        address = url(host, listening, token)

        def announce() -> None:
            if not quiet:
                note(f"{count(len(explorer.overview), 'item')}. Open the page below; Ctrl+C stops.")
            print_result(address)

        try:
            answer(create_app(explorer, Limits(search_seconds=timeout), token), listening, announce)
        except KeyboardInterrupt:
            if not quiet:
                note("Stopped.")


def _explorer(index: Path, images: Path | None) -> Explorer:
    """Open an index, or a file of vectors, which has no model and no pictures."""
    from eigenmap.cli.search import database
    from eigenmap.service.explorer import Explorer
    from eigenmap.service.thumbnails import StoredPictures

    if not database.is_plain(index):
        return Explorer.open(index, images)
    if images is not None:
        raise EigenmapError(f"--images is for an index of images, but {index} is a file of vectors; leave it out.")
    return Explorer(database.plain_index(index), None, index.name, StoredPictures(index))
