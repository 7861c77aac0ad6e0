"""Models in folders and on the Hugging Face Hub: download by name, and upload.

    folder = model_folder("runs/mine")                # a local folder
    folder = model_folder("someone/birds")            # downloaded once, then taken from the cache
    publish(Path("runs/mine"), "someone/birds", card)

The hub needs the package `huggingface_hub` (`pip install "eigenmap[hub]"`). A model is two files, its description and
its weights; nothing else in a repository is downloaded, and nothing downloaded is executed.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from shutil import copyfile
from typing import Any

from eigenmap.core.arguments import a_path
from eigenmap.core.errors import EigenmapError
from eigenmap.description import DESCRIPTION, WEIGHTS

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
CARD = "README.md"


def model_folder(path_or_name: str | Path, revision: str | None = None) -> Path:
    """Return the folder of a model: the path itself if it exists, else a download of that name.

    Args:
        path_or_name: a folder with a model, or the name of a repository, "owner/model".
        revision: branch, tag or commit of the repository; the newest by default.

    """
    path = a_path(path_or_name, "path_or_name")
    if path.exists():
        return path
    name = str(path_or_name)
    if not _NAME.fullmatch(name):
        raise EigenmapError(
            f'{name} does not exist, and is not the name of a model on the hub, such as "someone/birds".'
        )
    hub = _hub(f"{name} does not exist here, and downloading it")
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=[DESCRIPTION, WEIGHTS]))
    except _failures(hub) as error:
        raise EigenmapError(f"{name} does not exist here, and cannot be downloaded: {_first_line(error)}") from error


def publish(folder: Path, name: str, card: str, *, private: bool = False) -> str:
    """Upload the model in a folder with its card, creating the repository if needed; return its address.

    The account is the one that `hf auth login` stored, or the token in the environment variable HF_TOKEN.
    """
    if not _NAME.fullmatch(name):
        raise EigenmapError(f'The name of a model on the hub must be "owner/model", not {name!r}.')
    hub = _hub("Uploading")
    with tempfile.TemporaryDirectory() as staging:
        try:
            for file in (DESCRIPTION, WEIGHTS):
                copyfile(folder / file, Path(staging) / file)
            (Path(staging) / CARD).write_text(card, encoding="utf-8")
            api = hub.HfApi()
            api.create_repo(name, private=private, exist_ok=True)
            done = api.upload_folder(repo_id=name, folder_path=staging, commit_message="Upload model")
        except _failures(hub) as error:
            raise EigenmapError(f"{name} cannot be uploaded: {_first_line(error)}") from error
    return str(getattr(done, "repo_url", name))


def _hub(why: str) -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise EigenmapError(f'{why} needs the package huggingface_hub: pip install "eigenmap[hub]".') from error
    return huggingface_hub


def _failures(hub: Any) -> tuple[type[Exception], ...]:
    """Return what the package raises without a network, a repository or permission.

    Since its version 1, errors of the network are those of httpx, which are no OSError.
    """
    own = (OSError, ValueError, hub.errors.HfHubHTTPError)
    httpx: Any = sys.modules.get("httpx")
    return own if httpx is None else (*own, httpx.HTTPError)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
