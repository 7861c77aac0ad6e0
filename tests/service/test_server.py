from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from eigenmap import EigenmapError
from eigenmap.service.server import check_exposure, listen, url


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


def test_the_address_carries_any_token() -> None:
    token = "a+b&c=d#e%20f/g ?h"
    check_exposure("0.0.0.0", token)
    with listen("127.0.0.1", 0) as listening:
        asked = urlsplit(url("127.0.0.1", listening, token))
    assert parse_qs(asked.query) == {"token": [token]} and not asked.fragment


@pytest.mark.parametrize("host", ["no..such", "x" * 64 + ".invalid"])
def test_what_is_no_host_name_is_explained(host: str) -> None:
    with pytest.raises(EigenmapError, match=r"is not an address of this machine"):
        listen(host, 0)


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
