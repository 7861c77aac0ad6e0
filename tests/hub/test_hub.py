"""Models by name: a folder, a repository on a hub that this file serves, and names that lead nowhere."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import huggingface_hub
import pytest

from eigenmap.core.errors import EigenmapError
from eigenmap.hub import model_folder, publish
from eigenmap.model import Eigenmap

MODEL = Path(__file__).parents[1] / "compatibility" / "v0_1" / "graph" / "model"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"model.json", "model.safetensors"}


def test_a_path_leads_to_itself(tmp_path):
    assert model_folder(tmp_path) == tmp_path
    assert model_folder(str(MODEL)) == MODEL


@pytest.mark.parametrize("name", ["runs/missing/one", "missing", "../up", "a b/c"])
def test_a_path_that_does_not_exist_and_is_no_name(name):
    with pytest.raises(EigenmapError, match=name.replace("/", "/")):
        model_folder(name)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(EigenmapError, match=r"someone/birds.*eigenmap\[hub\]"):
        model_folder("someone/birds")
    with pytest.raises(EigenmapError, match=r"eigenmap\[hub\]"):
        publish(MODEL, "someone/birds", "card")


@pytest.mark.parametrize("name", ["birds", "some one/birds", "a/b/c", ""])
def test_a_wrong_name_for_an_upload(name):
    with pytest.raises(EigenmapError, match="owner/model"):
        publish(MODEL, name, "card")


def test_an_upload_holds_the_model_and_its_card(monkeypatch):
    sent = {}

    class Api:
        def create_repo(self, name, private, exist_ok):
            sent.update(name=name, private=private)

        def upload_folder(self, repo_id, folder_path, commit_message):
            sent.update({file.name: file.read_bytes() for file in Path(folder_path).iterdir()})

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    model = Eigenmap.load(MODEL)
    assert model.push_to_hub("someone/birds", private=True) == "someone/birds"
    assert (sent.pop("name"), sent.pop("private")) == ("someone/birds", True)
    assert (
        set(sent) == {*FILES, "README.md"} and sent["model.safetensors"] == (MODEL / "model.safetensors").read_bytes()
    )
    assert sent["README.md"].decode() == model.card("someone/birds")


def test_an_upload_without_a_network_is_explained(monkeypatch):
    """The package raises the errors of its HTTP library, which is none of the standard library's kind."""

    class Api:
        def create_repo(self, name, private, exist_ok):
            raise httpx.ConnectError("[Errno 111] Connection refused")

    monkeypatch.setattr(huggingface_hub, "HfApi", Api)
    with pytest.raises(EigenmapError, match=r"someone/birds cannot be uploaded: .*Connection refused"):
        publish(MODEL, "someone/birds", "card")


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as a download asks for: the list of files, and their contents."""

    asked: list[str]

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        path = self.path.split("?")[0]
        if path.startswith("/api/models/someone/birds"):
            if "/tree/" in path:
                content = json.dumps([entry(name) for name in (*sorted(FILES), "run_me.py")]).encode()
            else:
                names = [{"rfilename": name} for name in (*sorted(FILES), "run_me.py")]
                content = json.dumps({"id": "someone/birds", "sha": COMMIT, "siblings": names}).encode()
            self.reply(200, content, body)
        elif (name := path.rpartition("/")[2]) in FILES and path.startswith("/someone/birds/resolve/"):
            self.server.asked.append(name)
            self.reply(200, (MODEL / name).read_bytes(), body)
        else:
            self.server.asked.append(path)
            self.reply(404, b"{}", body)

    def reply(self, status, content, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if body:
            self.wfile.write(content)


def entry(name):
    file = MODEL / name
    size = file.stat().st_size if file.exists() else 3
    return {"type": "file", "path": name, "size": size, "oid": hashlib.sha1(name.encode()).hexdigest()}


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def in_another_process(hub, cache, code):
    """Run code with the hub of this file; the package reads its address when it is imported."""
    environment = {
        **os.environ,
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}",
        "HF_HOME": str(cache),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
    }
    run = [sys.executable, "-c", code]
    return subprocess.run(run, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_model_is_downloaded_by_name(hub, tmp_path):
    code = "import eigenmap as em; print(em.Eigenmap.from_pretrained('someone/birds').weights_sha256)"
    done = in_another_process(hub, tmp_path, code)
    assert done.returncode == 0, done.stderr
    about = json.loads((MODEL / "model.json").read_text())
    assert done.stdout.strip() == about["weights_sha256"]
    assert set(hub.asked) == FILES  # nothing else of the repository


def test_a_name_that_the_hub_does_not_know(hub, tmp_path):
    code = (
        "import eigenmap as em\n"
        "try: em.Eigenmap.from_pretrained('someone/cats')\n"
        "except em.EigenmapError as error: print(error)"
    )
    done = in_another_process(hub, tmp_path, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("someone/cats ") and len(done.stdout.splitlines()) == 1
