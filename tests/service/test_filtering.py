from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from eigenmap.search.filters import NestedError
from eigenmap.service.filtering import check_filter
from eigenmap.service.scheduling import Limits
from eigenmap.service.uploads import Refused

LIMITS = Limits(filter_conditions=3, filter_values=5, filter_characters=20)


@pytest.mark.parametrize(
    "where",
    [None, {}, {"a": 1, "b": "x", "c": None}, {"a": [1, 2, 3, 4, 5]}, {"a": {"!=": [1, 2, 3]}}, {"a": "x" * 19}],
)
def test_a_filter_within_its_limits_is_accepted(where: dict[str, Any] | None) -> None:
    check_filter(where, LIMITS)
    if where:
        with pytest.raises(Refused, match="0 conditions"):
            check_filter(where, Limits(filter_conditions=0))


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (dict.fromkeys("abcd", 1), "3 conditions"),
        ({"a": {"!=": [1, 2, 3, 4]}}, "3 conditions"),
        ({"a": {">": 1, "<": 5}, "b": {">": 1, "<": 5}}, "3 conditions"),
        ({"a": [1, 2, 3, 4, 5, 6]}, "5 values"),
        ({"a": {"in": [1, 2, 3]}, "b": [4, 5, 6]}, "5 values"),
        ({"a": "x" * 20}, "20 characters"),
        ({"a" * 21: 1}, "20 characters"),
        ({"a": ["x" * 10, "y" * 10]}, "20 characters"),
    ],
)
def test_a_longer_filter_is_refused(where: dict[str, Any], what: str) -> None:
    with pytest.raises(Refused, match=what) as refused:
        check_filter(where, LIMITS)
    assert refused.value.status == 422


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [2, 3, 100, 900])
def test_a_nested_filter_is_refused(depth: int) -> None:
    for where in ({"a": nested(depth)}, {"a": {"==": nested(depth)}}, {"a": {"in": {"b": nested(depth)}}}):
        with pytest.raises(NestedError):
            check_filter(where, LIMITS)


def refusals(client: httpx.Client, status: int) -> int:
    """How many searches were refused so, as /metrics has it."""
    wanted = f'eigenmap_requests_total{{route="/api/search",status="{status}"}} '
    lines = client.get("/metrics").text.splitlines()
    return next((int(line.removeprefix(wanted)) for line in lines if line.startswith(wanted)), 0)


DEEP = b"[" * 900 + b"]" * 900
BOTTOMLESS = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("where", "status"),
    [
        (b'{"label": {"==": {"a": 1}}}', 400), (b'{"label": {"a": {"b": {"c": 1}}}}', 400), (b'{"label": [[1]]}', 400),
        (b'{"label": {"in": {"a": 1}}}', 400), (b'{"label": %s}' % DEEP, 400), (b'{"label": {"==": %s}}' % DEEP, 400),
        (b'{"label": %s}' % BOTTOMLESS, 400), (b'{"label": {"==": %s}}' % BOTTOMLESS, 400), (BOTTOMLESS, 400),
        (b'{"label": %s}' % json.dumps(list(range(120_000))).encode(), 422),
        (b'{"label": {"!=": %s}}' % json.dumps(list(range(120_000))).encode(), 422),
        (json.dumps({str(i): 1 for i in range(1000)}).encode(), 422),
    ],
)  # fmt: skip
def test_hostile_filters_get_a_sentence_the_usual_headers_and_are_counted(
    client: httpx.Client, where: bytes, status: int
) -> None:
    before = refusals(client, status)
    body = b'{"id": "disc/1.png", "where": %s}' % where
    answer = client.post("/api/search", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and 0 < len(answer.json()["detail"]) < 500
    assert answer.headers["x-content-type-options"] == "nosniff" and "content-security-policy" in answer.headers
    assert refusals(client, status) == before + 1


@pytest.mark.parametrize("word", ["label=[[1]]", 'label={"a":1}', f"label={'[' * 20_000}", f"label={DEEP.decode()}"])
def test_hostile_words_too(client: httpx.Client, word: str) -> None:
    before = refusals(client, 400)
    answer = client.get("/api/search", params={"id": "disc/1.png", "where": word})
    assert answer.status_code == 400 and "content-security-policy" in answer.headers
    assert refusals(client, 400) == before + 1
    upload = client.post("/api/search/image", params={"where": word}, content=b"x")
    assert upload.status_code == 400 and upload.headers["connection"] == "close"  # before the body is read
