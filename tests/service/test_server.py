from __future__ import annotations

import subprocess
import sys

import pytest

from eigenmap import EigenmapError
from eigenmap.service.server import check_exposure, limit_kept_memory, listen, url


def test_only_loopback_is_served_without_a_token() -> None:
    check_exposure("127.0.0.1", None)
    check_exposure("localhost", None)
    check_exposure("0.0.0.0", "0123456789abcdef")
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org"):
        with pytest.raises(EigenmapError, match=r"requires token="):
            check_exposure(host, None)


@pytest.mark.parametrize("token", ["", "short", "0123456789abcdé", "0123456789abcdef\n"])
def test_a_token_that_can_be_guessed_or_not_sent_is_refused(token: str) -> None:
    with pytest.raises(EigenmapError, match="16 characters"):
        check_exposure("127.0.0.1", token)


def test_a_port_that_is_taken_or_makes_no_sense() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert url("127.0.0.1", first, None) == f"http://127.0.0.1:{port}/"
        assert url("0.0.0.0", first, "secret").endswith(f":{port}/?token=secret")
        with pytest.raises(EigenmapError, match=f"127.0.0.1, port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(EigenmapError, match=r"65535.*70000"):
        listen("127.0.0.1", 70_000)
    with pytest.raises(EigenmapError, match=r"no\.such.host.invalid"):
        listen("no.such.host.invalid", 0)


MAPPED = """
import ctypes, sys
from eigenmap.service.server import limit_kept_memory

class Numbers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Numbers
if sys.argv[1] == "limited":
    limit_kept_memory()
bytearray(8 << 20)  # allocated and freed: from now on, glibc takes blocks of this size from its pool
before = library.mallinfo2().hblks
block = bytearray(4 << 20)
print(library.mallinfo2().hblks - before)
"""


def test_large_blocks_go_back_to_the_system() -> None:
    mapped = {}
    for how in ("limited", "as it is"):
        done = subprocess.run([sys.executable, "-c", MAPPED, how], capture_output=True, text=True, check=True)
        mapped[how] = int(done.stdout)
    assert mapped == {"limited": 1, "as it is": 0}


def test_other_libraries_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("ctypes.CDLL", lambda name: asked.append(name) or object())
    limit_kept_memory()
    assert asked == [None]
